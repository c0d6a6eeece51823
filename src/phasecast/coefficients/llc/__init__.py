"""What is λ̂ of my model? The local learning coefficient by sampling: options, plan, levels of γ, judgement, result."""
