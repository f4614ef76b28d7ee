// Tensors that `kinora plugins validate` gives to components, and what is compared of those that they return.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/validate/trial_call.hpp"
#include "kinora/tensor.hpp"

namespace kinora {

using TrialInputs = std::map<std::string, Tensor>;
// For a call. It borrows the inputs.
std::vector<kinora_named> named(const TrialInputs&);

// Normal numbers, float64. The same for the same seed and shape.
Tensor normal(uint64_t seed, const std::vector<int64_t>& shape);

// An input of the manifest: normal numbers in float64, ids that are 0 or 1, or true. An axis has the size of
// the option of its name, else that of `sizes`, else 2; of several shapes the first is taken.
Tensor trial_input(const core::TensorSpec&, const core::Options&, const std::map<std::string, int64_t>& sizes,
                   uint64_t seed);

// The same on the meta device: a shape without numbers.
Tensor on_meta(const Tensor&);

// All numbers in float64, without gradient.
std::vector<double> numbers(const Tensor&);

// Size of the difference divided by that of `exact`, both as square roots of sums of squares.
double relative_error(const std::vector<double>& found, const std::vector<double>& exact);

// "[2, 3]"
std::string shape_text(const std::vector<int64_t>& sizes);

// Throws Error unless found is the central difference of f by the number at `x`, which is as before
// afterwards. of: "`loss` by prediction[0]". Returns the difference over max(1, |expected|).
double require_slope(const std::string& of, double found, double* x, const std::function<double()>& f);

// The gradient of the sum of `of` times `weight` by each of the leaves, zeros where there is none.
std::vector<std::vector<double>> gradients(const Tensor& of, const Tensor& weight,
                                           const std::vector<Tensor>& leaves);

// The tensor with other contents, strides, type or shape, and words for what differs.
std::vector<std::pair<std::string, Tensor>> hostile_tensors(const Tensor& usual);

// Calls `use` with each input missing, and with each input hostile, and words for what differs.
void with_hostile_inputs(const TrialInputs& usual,
                         const std::function<void(const std::string& what, const TrialInputs&)>& use);

// Runs `use` twice and requires that the second time leaves no handle: the first may fill caches.
void require_no_handles(core::Tier, const std::function<void()>& use);

}  // namespace kinora
