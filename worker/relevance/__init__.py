"""The relevance model: features, trees and thresholds."""
