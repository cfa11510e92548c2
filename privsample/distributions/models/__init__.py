"""Models: a likelihood with a conjugate prior, its sufficient statistic and its posterior."""
