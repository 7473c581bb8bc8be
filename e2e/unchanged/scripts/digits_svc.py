"""Classifies handwritten digits."""

import argparse

from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

parser = argparse.ArgumentParser()
parser.add_argument("--C", type=float, default=1.0)
parser.add_argument("--gamma", type=float, default=0.01)
args = parser.parse_args()

digits = load_digits()
x_train, x_test, y_train, y_test = train_test_split(digits.data, digits.target, test_size=0.3, random_state=0)
model = SVC(C=args.C, gamma=args.gamma)
model.fit(x_train, y_train)
print(f"Accuracy: {accuracy_score(y_test, model.predict(x_test)):.4f}")
