// Autograd for links and losses: nodes with their own forward and backward, and gradients inside a
// backward. T is kinora::Tensor (stable tier) or at::Tensor (pinned). See kinora_function in abi/tensor.h.
#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kinora/tensor.hpp"

KINORA_SDK_BEGIN

namespace kinora {

namespace detail {

template <class T>
struct Node {
  using Fn = std::function<std::vector<T>(const std::vector<T>&)>;
  Fn forward, backward;
  size_t n_in, n_out;

  static std::vector<T> borrow_all(const kinora_tensor* in, size_t n) {
    std::vector<T> out;
    for (size_t i = 0; i < n; ++i) out.push_back(borrow<T>(in[i]));
    return out;
  }
  static void give_exactly(std::vector<T> from, kinora_tensor* out, size_t n) {
    if (from.size() != n)
      throw Error(KINORA_ERROR_FAILED, "an autograd function returned " + std::to_string(from.size()) +
                                           " tensors instead of " + std::to_string(n));
    for (size_t i = 0; i < n; ++i) out[i] = give(std::move(from[i]));
  }
  static Node* of(void* state) { return static_cast<Node*>(state); }
  static int32_t run(void* state, const kinora_tensor* in, kinora_tensor* out) {
    return guard([&] {
      const Fn once = std::exchange(of(state)->forward, nullptr);  // frees what only the forward needs
      give_exactly(once(borrow_all(in, of(state)->n_in)), out, of(state)->n_out);
    });
  }
  static int32_t run_backward(void* state, const kinora_tensor* grad_out, kinora_tensor* grad_in) {
    return guard([&] {
      give_exactly(of(state)->backward(borrow_all(grad_out, of(state)->n_out)), grad_in, of(state)->n_in);
    });
  }
  static void drop(void* state) { delete of(state); }
};

}  // namespace detail

// Adds one node over `in`. forward: in -> n_out tensors, run at once without gradient. backward: n_out
// gradients
// -> in.size() gradients, where an undefined one means zero; it may run later, on another thread, and owns
// its captures until then.
template <class T>
std::vector<T> autograd_apply(const std::vector<T>& in, size_t n_out, typename detail::Node<T>::Fn forward,
                              typename detail::Node<T>::Fn backward) {
  using Node = detail::Node<T>;
  kinora_function f{};
  f.struct_size = sizeof f;
  f.n_in = static_cast<uint32_t>(in.size());
  f.n_out = static_cast<uint32_t>(n_out);
  f.state = new Node{std::move(forward), std::move(backward), in.size(), n_out};
  f.forward = Node::run;
  f.backward = Node::run_backward;
  f.drop = Node::drop;
  std::vector<kinora_tensor> handles, out(n_out);
  for (const auto& t : in) handles.push_back(handle(t));
  check_or_stop(
      tensors_api().autograd_apply(&f, handles.data(), out.data()));  // on an error the state was dropped
  std::vector<T> made;
  for (auto h : out) made.push_back(adopt<T>(h));
  return made;
}

// Gradients of `outputs`, weighted by grad_outputs, with respect to `inputs`; undefined for an input that the
// outputs do not depend on.
template <class T>
std::vector<T> grad(const std::vector<T>& outputs, const std::vector<T>& grad_outputs,
                    const std::vector<T>& inputs) {
  std::vector<kinora_tensor> o, g, in, out(inputs.size());
  for (const auto& t : outputs) o.push_back(handle(t));
  for (const auto& t : grad_outputs) g.push_back(handle(t));
  for (const auto& t : inputs) in.push_back(handle(t));
  check(tensors_api().grad(o.data(), g.data(), o.size(), in.data(), in.size(), out.data()));
  std::vector<T> made;
  for (auto h : out) made.push_back(adopt<T>(h));
  return made;
}

// Runs the backward of outputs weighted by their gradients; adds to .grad of the leaves.
template <class T>
void backward(const std::vector<T>& outputs, const std::vector<T>& grad_outputs) {
  std::vector<kinora_tensor> o, g;
  for (const auto& t : outputs) o.push_back(handle(t));
  for (const auto& t : grad_outputs) g.push_back(handle(t));
  check(tensors_api().backward(o.data(), g.data(), o.size()));
}

}  // namespace kinora

KINORA_SDK_END
