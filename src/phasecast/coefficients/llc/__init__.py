"""λ̂ of a trained model: the local learning coefficient by sampling."""
