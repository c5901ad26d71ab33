"""The relevance model that ships: features, trees and thresholds."""
