"""A model behind HTTP: any model of this package, spoken to as services of the two usual forms are."""
