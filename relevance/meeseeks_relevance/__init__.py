"""The files of the model: `card.json` says what they are, `model.npz` holds the numbers. The service reads them."""
