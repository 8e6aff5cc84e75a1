"""GenSen (Subramanian et al. 2018): the objective and its tasks."""
