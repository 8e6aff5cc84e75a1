"""Figures and tables of the papers, and of the suite, that ``reproduce.py`` makes."""

from analysis.papers import conssent, declutr, declutr_v1, gensen, suite
from analysis.papers.base import Reproduction

CATALOGUE: dict[str, Reproduction] = {
    item.id: item
    for module in (conssent, declutr, declutr_v1, gensen, suite)
    for item in vars(module).values()
    if isinstance(item, Reproduction)
}
