"""sentence-transformers' Dense module: a linear map of the sentence vector, then an activation.

The multilingual models of Reimers and Gurevych (2020) end in one, and so does LaBSE (Feng et al. 2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from safetensors.torch import save_file
from torch import Tensor, nn

from data.errors import UserError, reading
from data.files import read_json, write_json
from encoders.folder import WEIGHTS, read_weights

ACTIVATIONS: dict[str, type[nn.Module]] = {
    kind.__name__: kind for kind in (nn.Identity, nn.Tanh, nn.ReLU, nn.GELU, nn.SiLU, nn.Sigmoid)
}
Size = Annotated[int, Field(ge=1, le=2**31)]


@dataclass
class Settings:
    """Keys of the module's ``config.json``."""

    in_features: Size
    out_features: Size
    bias: bool = True
    activation_function: str = "torch.nn.modules.activation.Tanh"


class Dense(nn.Module):
    """Maps vectors of shape (B, D) to vectors of shape (B, ``linear.out_features``).

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
            UserError: if it cannot be read, or has an option that is not supported here.
        """
        config: dict[str, Any] = read_json(folder / "config.json", Settings)
        activation = config.get("activation_function", Settings.activation_function)
        name = activation.rsplit(".", 1)[-1]
        if not activation.startswith("torch.nn.") or name not in ACTIVATIONS:
            raise UserError(f"activation {activation} is none of {', '.join(ACTIVATIONS)}", key=str(folder))
        whole = "sentence_embedding"
        places = [config.get(key) or whole for key in ("module_input_name", "module_output_name")]
        if config.get("use_residual") or places != [whole, whole]:
            raise UserError("not a plain map of the sentence vector", key=str(folder))
        linear = nn.Linear(config["in_features"], config["out_features"], bias=config.get("bias", True))
        with reading("linear map", folder):
            weights = read_weights(folder / WEIGHTS)
            linear.load_state_dict({key.removeprefix("linear."): weight for key, weight in weights.items()})
        return cls(linear, name)

    def save(self, folder: Path) -> None:
        """Writes a folder that ``load`` and sentence-transformers open."""
        folder.mkdir()
        activation = f"{type(self.activation).__module__}.{self.name}"
        size = {"in_features": self.linear.in_features, "out_features": self.linear.out_features}
        config = {**size, "bias": self.linear.bias is not None, "activation_function": activation}
        write_json(folder / "config.json", config)
        weights = {f"linear.{key}": weight.detach().cpu() for key, weight in self.linear.state_dict().items()}
        save_file(weights, folder / WEIGHTS)
