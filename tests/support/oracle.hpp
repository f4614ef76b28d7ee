// Fixtures of tests/data/oracle: results of an independent implementation, written by tests/oracle/*.py.
// And what is compared with them: a component on a chain of its own, and links for it that recompute or
// reorder.
#pragma once
#include <filesystem>
#include <string>

#include <ATen/ATen.h>

#include "core/torch/chain/chain.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "kinora/abi/parallel.h"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "tests/support/plugins.hpp"

namespace kinora::test {

// One case of a file: its tensors are named CASE.NAME, its metadata CASE holds the component's options.
class Oracle {
 public:
  Oracle(const std::string& file, const std::string& name) : prefix_(name.empty() ? "" : name + ".") {
    const auto path = std::filesystem::path(KINORA_TEST_DATA) / "oracle" / file;
    all_ = core::read_tensors(path);
    const auto opened = core::or_throw(core::Safetensors::open(path));
    const auto found = opened.metadata().find(name);
    if (found != opened.metadata().end()) options = core::json::parse(found->second);
  }
  core::json options = core::json::object();
  bool has(const std::string& name) const { return all_.count(prefix_ + name) != 0; }
  // A copy that may be written to and may require a gradient.
  at::Tensor operator()(const std::string& name, at::ScalarType dtype) const {
    return exact(name).to(dtype).clone();
  }
  at::Tensor exact(const std::string& name) const { return all_.at(prefix_ + name); }
  // Tensors named CASE.PREFIX..., without the prefix.
  core::NamedTensors under(const std::string& prefix) const {
    core::NamedTensors out;
    for (const auto& [name, t] : all_)
      if (name.rfind(prefix_ + prefix, 0) == 0) out[name.substr(prefix_.size() + prefix.size())] = t;
    return out;
  }

 private:
  std::string prefix_;
  core::NamedTensors all_;
};

// Same as tests/oracle/oracle_numbers.py: unit variance, uniform, exact in float32, a function of (name,
// index).
inline at::Tensor numbers(const std::string& name, at::IntArrayRef shape) {
  uint64_t h = 0xCBF29CE484222325u;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  const at::Tensor out = at::empty(shape, at::kDouble);
  auto* to = out.data_ptr<double>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    uint64_t z = h + (static_cast<uint64_t>(i) + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    to[i] = static_cast<float>((2 * (static_cast<double>(z >> 11) * 0x1p-53) - 1) * 1.7320508075688772);
  }
  return out;
}

// Same as weight() in that file.
inline at::Tensor oracle_weight(const std::string& name, const std::vector<int64_t>& shape,
                                double gain = 0.7) {
  const at::Tensor x = numbers(name, shape);
  const auto ends = [&](std::string_view tail) { return name.size() >= tail.size() && name.ends_with(tail); };
  if (shape.size() < 2)
    return (x * 0.1 + (ends("weight") || ends("gamma") ? 1.0 : 0.0)).to(at::kFloat).to(at::kDouble);
  return (x * (gain / std::sqrt(static_cast<double>(x[0].numel())))).to(at::kFloat).to(at::kDouble);
}

// Largest difference, relative to the largest number of b.
inline double difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes())
    throw Error(KINORA_ERROR_INVALID, c10::str("shapes differ: ", a.sizes(), " and ", b.sizes()));
  const auto x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  return ((x - y).abs().max() / y.abs().max()).item<double>();
}

inline double bound_of(at::ScalarType dtype) { return dtype == at::kDouble ? 1e-12 : 1e-5; }

// Recomputes every block in the backward: a model that captures a tensor loses its gradient here.
class Recompute {
 public:
  Recompute()
      : strategy_("parallel/recompute", core::json::object(), static_cast<const kinora_mesh*>(nullptr)) {
    check(strategy_->link(strategy_.self(), &link_));
  }
  const kinora_link* get() const { return link_; }

 private:
  Instance<kinora_parallel> strategy_;
  const kinora_link* link_ = nullptr;
};

// A model or tokenizer on its own chain.
template <class Table>
class OnChain {
 public:
  OnChain(const char* id, const core::json& options, at::ScalarType dtype,
          std::vector<const kinora_link*> links = {}, at::Device device = at::kCPU)
      : chain_(with(dtype, device), std::move(links)), instance_(id, options, chain_.head()) {
    chain_.ready();
  }
  core::Chain& chain() { return chain_; }
  const kinora_context* context() const { return chain_.head(); }
  const Table* operator->() const { return instance_.operator->(); }
  void* self() const { return instance_.self(); }
  void load(const core::NamedTensors& weights, const core::LoadOptions& how = {}) {
    core::load_values(chain_.parameters(), chain_.leaves(), weights, how);
  }
  // The numbers that tests/oracle/oracle_numbers.py gives every parameter.
  void fill(double gain = 0.7) {
    core::NamedTensors weights;
    for (const auto& p : chain_.parameters()) weights[p.name] = oracle_weight(p.name, p.shape, gain);
    load(weights);
  }
  // Random parameters without zeros, for tests that need no oracle.
  void randomise() {
    for (auto& leaf : chain_.leaves()) {
      at::Tensor t = leaf.tensor.detach();
      t.copy_(at::randn(t.sizes(), t.options()) *
              (t.dim() > 1 ? 0.7 / std::sqrt(static_cast<double>(t[0].numel())) : 0.3));
      if (t.dim() == 1) t.add_(1);
    }
  }
  std::vector<at::Tensor> forward(const core::NamedTensors& in, size_t n_out = 1) const {
    std::vector<kinora_named> named;
    for (const auto& [name, t] : in) named.push_back({name.c_str(), handle(t)});
    std::vector<kinora_tensor> out(n_out, nullptr);
    check(instance_->forward(self(), context(), named.data(), named.size(), out.data(), n_out));
    std::vector<at::Tensor> made;
    for (auto* h : out) made.push_back(adopt<at::Tensor>(h));
    return made;
  }

 private:
  static core::ChainOptions with(at::ScalarType dtype, at::Device device) {
    plugins();
    core::ChainOptions o;
    o.dtype = dtype;
    o.device = device;
    return o;
  }
  core::Chain chain_;
  Instance<Table> instance_;
};

// Tokens in another order, as context parallelism leaves them: only the tables give their positions.
class Shuffled final : public Link<at::Tensor> {
 public:
  // by_sample: one table per sample, as for packed rows.
  explicit Shuffled(bool by_sample) : Link(KINORA_LEVEL_CONTEXT), by_sample_(by_sample) {}
  at::Tensor sequence(const at::Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) override {
    at::manual_seed(5);
    order_ = at::randperm(x.size(1), at::kLong);
    table_ = borrow<at::Tensor>(spec.table).index_select(1, order_);
    if (by_sample_) table_ = table_.expand({x.size(0), -1, -1}).contiguous();
    auto shuffled = spec;
    shuffled.table = handle(table_);
    return next.sequence(x.index_select(1, order_), shuffled, seq);
  }
  at::Tensor gather(const at::Tensor& x, kinora_seq seq) override {
    return next.gather(x, seq).index_select(1, order_.argsort());
  }

 private:
  bool by_sample_;
  at::Tensor order_, table_;
};

}  // namespace kinora::test
