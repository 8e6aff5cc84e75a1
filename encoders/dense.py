"""sentence-transformers' Dense module: a linear map of the sentence vector, then an activation.

The multilingual models of Reimers and Gurevych (2020) end in one, and so does LaBSE (Feng et al. 2022).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from data.errors import UserError
from data.files import read_json, write_json

ACTIVATIONS: dict[str, type[nn.Module]] = {
    kind.__name__: kind for kind in (nn.Identity, nn.Tanh, nn.ReLU, nn.GELU, nn.SiLU, nn.Sigmoid)
}
WEIGHTS = "model.safetensors"


class Dense(nn.Module):
    """Vectors of shape (B, D) to vectors of shape (B, ``linear.out_features``).

    Args:
        linear: the map.
        activation: name of one of ``ACTIVATIONS``.
    """

    def __init__(self, linear: nn.Linear, activation: str) -> None:
        super().__init__()
        self.linear = linear
        self.name = activation
        self.activation = ACTIVATIONS[activation]()

    def forward(self, vectors: Tensor) -> Tensor:
        return self.activation(self.linear(vectors))

    @classmethod
    def load(cls, folder: Path) -> Dense:
        """Opens a module's folder.

        Raises:
            UserError: if it does more than this class, or its weights are pickled.
        """
        config: dict[str, Any] = read_json(folder / "config.json")
        activation = config.get("activation_function", "torch.nn.modules.activation.Tanh")
        name = activation.rsplit(".", 1)[-1]
        if not activation.startswith("torch.nn.") or name not in ACTIVATIONS:
            raise UserError(
                f"{folder} has the activation {activation}; one of {', '.join(ACTIVATIONS)} is opened."
            )
        whole = "sentence_embedding"
        places = [config.get(key) or whole for key in ("module_input_name", "module_output_name")]
        if config.get("use_residual") or places != [whole, whole]:
            raise UserError(f"{folder} is no plain map of the sentence vector, which alone is opened here.")
        if not (folder / WEIGHTS).is_file():
            raise UserError(f"{folder} has no {WEIGHTS}, and pickled weights are not opened here.")
        linear = nn.Linear(config["in_features"], config["out_features"], bias=config.get("bias", True))
        weights = load_file(folder / WEIGHTS)
        linear.load_state_dict({key.removeprefix("linear."): weight.float() for key, weight in weights.items()})
        return cls(linear, name)

    def save(self, folder: Path) -> None:
        """Writes what ``load`` and sentence-transformers open."""
        folder.mkdir()
        activation = f"{type(self.activation).__module__}.{self.name}"
        size = {"in_features": self.linear.in_features, "out_features": self.linear.out_features}
        config = {**size, "bias": self.linear.bias is not None, "activation_function": activation}
        write_json(folder / "config.json", config)
        weights = {f"linear.{key}": weight.detach().cpu() for key, weight in self.linear.state_dict().items()}
        save_file(weights, folder / WEIGHTS)
