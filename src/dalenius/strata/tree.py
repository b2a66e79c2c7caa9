"""Trees of questions to the quasi-identifiers, and the ways of making one."""

from dalenius.strata.blind import every_combination, kd_tree
from dalenius.strata.growing import grow
from dalenius.strata.nodes import Tree

__all__ = ["Tree", "every_combination", "grow", "kd_tree"]
