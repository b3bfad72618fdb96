"""States of a partial batch, one for each labelling that its points might get."""
