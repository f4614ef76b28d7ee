// The losses that tune a tokenizer once its reconstruction is good: adversarial and Kullback-Leibler, and the
// weight of the adversarial one. Pure functions; the critic itself is a model, such as
// model/patch-discriminator.
#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace kinora::core {

// Hinge losses on logits of any shape (Lim and Ye 2017, arXiv 1705.02894), means over the elements. The
// critic's: (mean max(0, 1 - real) + mean max(0, 1 + fake)) / 2; the caller must cut the gradient of `fake`
// to the tokenizer (detach it before the critic). The tokenizer's: - mean fake.
at::Tensor hinge_critic(const at::Tensor& real, const at::Tensor& fake);
at::Tensor hinge_generator(const at::Tensor& fake);

// Weight of the adversarial loss: || d reconstruction / d last || / (|| d adversarial / d last || + 1e-4), at
// most `most`, where last is the decoder's last layer (Esser et al. 2021, arXiv 2012.09841, equation 7, with
// the authors' constants). The arguments are those two gradients. Scalar, without gradient.
at::Tensor adaptive_weight(const at::Tensor& of_reconstruction, const at::Tensor& of_adversarial,
                           double most = 1e4);

// Weight of the adversarial loss by step: 0 before step `start`, then `weight`.
double from_step(double weight, int64_t step, int64_t start);

// KL(N(mean, exp(logvar)) || N(0, 1)) of the moments [B, 2 C, ...] of a variational encoder (Kingma and
// Welling 2014, appendix B): the sum over C and the other dimensions, one number per sample. logvar is
// clamped to [-30, 20].
at::Tensor kl_to_standard_normal(const at::Tensor& moments);

// Mean over all dimensions but the first.
at::Tensor l1_per_sample(const at::Tensor& a, const at::Tensor& b);
at::Tensor mse_per_sample(const at::Tensor& a, const at::Tensor& b);

}  // namespace kinora::core
