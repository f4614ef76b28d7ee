#include "plugins/jobs/training/optimizer.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/plugin/host.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/gathering.hpp"
#include "kinora/aten.hpp"
#include "plugins/jobs/training/checkpoint.hpp"

namespace kinora::core {
namespace {

// The declaration of a parameter as a model gives it. Borrows from p.
kinora_param_spec spec_of(const Parameter& p) {
  kinora_param_spec s{};
  s.struct_size = sizeof s;
  s.role = p.role;
  s.name = p.name.c_str();
  s.shape = p.shape.data();
  s.ndim = static_cast<uint32_t>(p.shape.size());
  s.n_parts = static_cast<uint32_t>(p.parts.size());
  s.parts = p.parts.data();
  s.quantum = p.quantum;
  s.block = p.block;
  s.init = p.init;
  s.init_scale = p.a;
  s.shards = 1;
  return s;
}

at::Tensor range_of(const at::Tensor& of_leaf, int64_t offset, int64_t count) {
  return of_leaf.detach().view({-1}).narrow(0, offset, count);
}

}  // namespace

bool decays(const Parameter& p) {
  const auto long_ones = std::count_if(p.shape.begin(), p.shape.end(), [](int64_t n) { return n > 1; });
  return long_ones > 1 && p.role < KINORA_ROLE_TABLE;
}

Decay usual_decay(double weight_decay) {
  return [weight_decay](const Parameter& p) { return decays(p) ? weight_decay : 0; };
}

Optimizer::Optimizer(const Component& c, const Options& o, const Parameters& parameters,
                     std::vector<Leaf>& leaves, const Decay& decay, const Exchange& exchange)
    : spec_(*c.spec),
      api_(c.table<kinora_optimizer>()),
      self_(instance_of<kinora_optimizer>(c, o)),
      parameters_(parameters),
      leaves_(leaves),
      exchange_(exchange) {
  for (const auto& output : spec_.outputs) {
    if (output.dtype != "float")
      raise(KINORA_ERROR_UNSUPPORTED,
            "{}: its state '{}' is of dtype {}; states of dtype float alone are stored here", spec_.id,
            output.name, output.dtype);
    names_.push_back(output.name);
  }
  states_.resize(names_.size());
  for (const auto& p : parameters_) {
    numbers_.emplace(p.name, plans_.size());
    plans_.push_back(p.frozen ? Plan{} : plan_of(p, decay));
    any_whole_ = any_whole_ || plans_.back().whole;
  }
  for (const auto& leaf : leaves) add_ranges(leaf);
}

Optimizer::Plan Optimizer::plan_of(const Parameter& p, const Decay& decay) const {
  const kinora_param_spec spec = spec_of(p);
  kinora_update_plan plan{sizeof plan, 0, 0, 0};
  called(api_.plan(self_.get(), &spec, &plan), spec_.id);
  if (plan.n_states > names_.size())
    raise(KINORA_ERROR_FAILED, "{}: plan of '{}' has {} states, the manifest {} outputs", spec_.id, p.name,
          plan.n_states, names_.size());
  if (plan.whole && !api_.direction)
    raise(KINORA_ERROR_FAILED, "{}: plan of '{}' says whole, but it has no direction()", spec_.id, p.name);
  return {plan.n_states, plan.whole != 0, decay(p)};
}

void Optimizer::add_ranges(const Leaf& leaf) {
  if (!leaf.tensor.is_contiguous())
    raise(KINORA_ERROR_UNSUPPORTED, "leaf '{}' is not contiguous; a link's leaves must be", leaf.name);
  auto& ranges = ranges_.emplace_back();
  size_t states = 0;
  for (const auto& piece : leaf.pieces) {
    const Plan& plan = plans_.at(static_cast<size_t>(piece.param - 1));
    if (!leaf.frozen) states = std::max<size_t>(states, plan.states);
    const bool goes_on = !ranges.empty() && ranges.back().plan == plan &&
                         ranges.back().offset + ranges.back().count == piece.offset;
    if (goes_on) {
      ranges.back().count += piece.count;
    } else {
      ranges.push_back({piece.offset, piece.count, plan});
    }
  }
  const auto like = leaf.tensor.options().dtype(state_dtype(leaf.tensor)).requires_grad(false);
  for (size_t i = 0; i < states_.size(); ++i)
    states_[i].push_back(i < states ? at::zeros(leaf.tensor.sizes(), like) : at::Tensor());
}

void Optimizer::step(double learning_rate, double gradient_factor, const std::vector<Ema*>& averages) {
  const at::NoGradGuard guard;
  kinora_update like{};
  like.struct_size = sizeof like;
  like.step = ++steps_;
  like.learning_rate = learning_rate;
  like.gradient_factor = gradient_factor;
  std::vector<double> shares;  // weights of the new values in the averages
  for (Ema* e : averages) shares.push_back(1 - e->next_decay());
  for (size_t i = 0; i < leaves_.size(); ++i) {
    auto& leaf = leaves_[i];
    if (leaf.frozen || !leaf.tensor.grad().defined()) {
      for (size_t k = 0; k < averages.size(); ++k) averages[k]->update_leaf(leaves_, i, 1 - shares[k]);
      continue;
    }
    if (auto& grad = leaf.tensor.mutable_grad(); !grad.is_contiguous()) grad = grad.contiguous();
    for (const auto& range : ranges_[i]) update(i, range, like, averages, shares);
  }
  if (any_whole_) step_whole(learning_rate, averages, shares);
}

void Optimizer::update(size_t i, const Range& range, const kinora_update& like,
                       const std::vector<Ema*>& averages, const std::vector<double>& shares) {
  const auto numbers = [&](const at::Tensor& of) { return range_of(of, range.offset, range.count); };
  const at::Tensor weight = numbers(leaves_[i].tensor), gradient = numbers(leaves_[i].tensor.grad());
  std::vector<at::Tensor> kept;
  for (uint32_t k = 0; k < range.plan.states; ++k) kept.push_back(numbers(states_[k][i]));
  for (size_t k = 0; !range.plan.whole && k < averages.size(); ++k)
    kept.push_back(numbers(averages[k]->values()[i]));
  std::vector<kinora_tensor> states;
  std::vector<kinora_average> moving;
  for (size_t k = 0; k < kept.size(); ++k)
    if (k < range.plan.states)
      states.push_back(handle(kept[k]));
    else
      moving.push_back({handle(kept[k]), shares[k - range.plan.states]});
  kinora_update u = like;
  u.n_states = range.plan.states;
  u.weight_decay = range.plan.decay;
  u.weight = handle(weight);
  u.gradient = handle(gradient);
  u.states = states.data();
  u.averages = moving.data();
  u.n_averages = moving.size();
  called(api_.update(self_.get(), &u), spec_.id);
}

template <class Chosen>
std::vector<Leaf> Optimizer::leaves_with(Chosen chosen) const {
  std::vector<Leaf> out = leaves_;
  for (auto& leaf : out)
    std::erase_if(leaf.pieces, [&](const Piece& piece) {
      return !chosen(plans_.at(static_cast<size_t>(piece.param - 1)));
    });
  return out;
}

// As many parameters at once as there are ranks: each computes one.
void Optimizer::step_whole(double learning_rate, const std::vector<Ema*>& averages,
                           const std::vector<double>& shares) {
  Holding directions{parameters_, leaves_with([](const Plan& plan) { return plan.whole; }), ""};
  for (auto& leaf : directions.leaves) leaf.tensor = leaf.frozen ? at::Tensor() : leaf.tensor.grad();
  Gathering gathering(exchange_);
  gathering.add(directions);
  const auto& items = gathering.items();
  const auto count = static_cast<int64_t>(items.size()), ranks = exchange_.size();
  for (int64_t first = 0; first < count; first += ranks) {
    std::vector<int64_t> wanted;
    for (int64_t r = 0; r < ranks; ++r) wanted.push_back(first + r < count ? first + r : Gathering::kNone);
    at::Tensor mine = gathering.collect(wanted);
    exchange_.together([&] {
      if (mine.defined()) mine = change_of(items[static_cast<size_t>(first + exchange_.rank())].name, mine);
    });
    for (int64_t r = 0; r < ranks && first + r < count; ++r) {
      const auto& item = items[static_cast<size_t>(first + r)];
      const at::Tensor room = r == exchange_.rank() ? mine : at::empty(item.shape, item.dtype);
      apply(item.name, exchange_.from(r, room), learning_rate, averages, shares);
    }
  }
}

// direction: whole, on the CPU. It is computed where the leaves are.
at::Tensor Optimizer::change_of(const std::string& name, const at::Tensor& direction) const {
  const kinora_param_spec spec = spec_of(parameters_[numbers_.at(name)]);
  const at::Tensor there = direction.to(leaves_.at(0).tensor.device());
  kinora_tensor out = nullptr;
  called(api_.direction(self_.get(), &spec, handle(there), &out), spec_.id);
  const at::Tensor change = out ? adopt<at::Tensor>(out) : at::Tensor();
  if (!change.defined() || change.sizes() != direction.sizes() ||
      change.scalar_type() != direction.scalar_type())
    raise(KINORA_ERROR_FAILED, "{}: the change of '{}' must be {} {}, as its direction is; it is {}",
          spec_.id, name, c10::toString(direction.scalar_type()), c10::str(direction.sizes()),
          change.defined() ? c10::str(change.scalar_type(), " ", change.sizes()) : "not there");
  return change.to(at::kCPU).contiguous();
}

// Each operation is rounded by itself, so the bits do not depend on how the leaves are cut.
void Optimizer::apply(const std::string& name, const at::Tensor& change, double learning_rate,
                      const std::vector<Ema*>& averages, const std::vector<double>& shares) {
  const size_t number = numbers_.at(name);
  for (size_t i = 0; i < leaves_.size(); ++i)
    for (const auto& piece : leaves_[i].pieces) {
      if (static_cast<size_t>(piece.param - 1) != number) continue;
      at::Tensor own = at::empty({piece.count}, change.scalar_type());
      copy_from_whole(parameters_[number], piece, change, own.data_ptr());
      at::Tensor w = range_of(leaves_[i].tensor, piece.offset, piece.count);
      w.mul_(1 - learning_rate * plans_[number].decay).sub_(own.mul_(learning_rate).to(w.device()));
      for (size_t k = 0; k < averages.size(); ++k) {
        at::Tensor a = range_of(averages[k]->values()[i], piece.offset, piece.count);
        a.add_((w.to(a.scalar_type()) - a).mul_(shares[k]));
      }
    }
}

void Optimizer::zero_grad() {
  for (auto& leaf : leaves_) leaf.tensor.mutable_grad().reset();
}

std::vector<Holding> Optimizer::held_states() const {
  std::vector<Holding> out;
  for (size_t i = 0; i < states_.size(); ++i) {
    auto leaves = leaves_with([&](const Plan& plan) { return plan.states > i; });
    out.push_back(held(parameters_, leaves, states_[i], names_[i] + "."));
  }
  return out;
}

void Optimizer::restore(NamedTensors states) {
  for (size_t i = 0; i < states_.size(); ++i) {
    NamedTensors from = taken(states, names_[i] + ".");
    std::vector<std::string> names;
    for (const auto& [name, tensor] : from) names.push_back(name);
    const LoadOptions how{
        .may_miss = [&](const std::string& name) { return plans_[numbers_.at(name)].states <= i; }};
    distribute(parameters_, leaves_with([&](const Plan& plan) { return plan.states > i; }), states_[i], names,
               taking_from(from), how);
  }
  if (!states.empty())
    raise(KINORA_ERROR_DATA, "the optimizer's file contains '{}', which is not a state of {}",
          states.begin()->first, spec_.id);
}

}  // namespace kinora::core
