"""The files of the judge: `card.json` says what they are, `judge.npz` holds the numbers. The service reads them."""
