"""Prose in docstrings: what is kept, and what is removed."""

from __future__ import annotations

from data.sources.prose import paragraphs

NUMPY = """
    mean(x, axis=None)

    Compute the *weighted* mean of :class:`~numpy.ndarray` objects along ``axis`` [1]_.

    Parameters
    ----------
    x : array_like, shape (n, m) or a very long list of other things
        Values to be averaged, as explained in the `user guide <https://a.b/c>`_.

    .. math::

        \\\\mu = \\\\frac{1}{n} \\\\sum_{i=1}^n x_i and here are many plain words

    .. note:: This note is prose that should be kept in the text.

    Examples
    --------
    The following is an example that shows it::

        here = some + code that is not prose at all but words

    >>> mean([1, 2])
    these are six words of output
    1.5

    ==== ======================
    name meaning of this column in words
    ==== ======================
    """

GOOGLE = """Loads a model from a folder that holds its files.

    Args:
        path (`str` or [`~os.PathLike`], *optional*):
            The folder in which the files of the model are.
        strict: Whether all of the keys have to match exactly.
        short: Too short.
    :param old: It has been kept for those who still use it.

    ```python
    this is code in a fence and it has many words
    ```

    <Tip>

    - Read the [guide](https://a.b/c) before you use
      this function for the first time.

    </Tip>
"""


def test_prose_is_kept_from_a_numpy_style_docstring() -> None:
    assert list(paragraphs(NUMPY)) == [
        "Compute the weighted mean of numpy.ndarray objects along axis .",
        "Values to be averaged, as explained in the user guide.",
        "This note is prose that should be kept in the text.",
        "The following is an example that shows it:",
    ]


def test_prose_is_kept_from_a_google_style_docstring() -> None:
    assert list(paragraphs(GOOGLE)) == [
        "Loads a model from a folder that holds its files.",
        "The folder in which the files of the model are.",
        "Whether all of the keys have to match exactly.",
        "It has been kept for those who still use it.",
        "Read the guide before you use this function for the first time.",
    ]
