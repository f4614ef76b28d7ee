#include "plugins/jobs/training/trained.hpp"

#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <ATen/ATen.h>

#include "core/run/job.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/lora.hpp"
#include "plugins/jobs/training/norms.hpp"

namespace kinora::core {
namespace {

std::vector<Ema> averages_of(Network& network, const std::vector<double>& decays) {
  std::vector<Ema> out;
  for (const double decay : decays)
    if (decay > 0) out.emplace_back(network.chain().leaves(), decay, /*rise=*/true);
  return out;
}

// Copies whole tensors of a checkpoint, which borrow a read-only mapping, into one tensor per leaf.
void copy_into(const Chain& chain, NamedTensors from, const std::vector<at::Tensor>& to,
               std::function<bool(const std::string&)> may_miss) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : from) names.push_back(name);
  distribute(chain.parameters(), chain.leaves(), to, names, taking_from(from),
             {.may_miss = std::move(may_miss)});
}

}  // namespace

Trained::Trained(JobContext& context, Network& network, Parallelism& parallel, How how)
    : network_(network),
      parallel_(parallel),
      how_(std::move(how)),
      optimizer_(context.open_slot(how_.optimizer), context.spec().component(how_.optimizer)->options,
                 chain().parameters(), chain().leaves(), how_.decay,
                 Exchange(parallel.group("world"), chain().leaves().at(0).tensor.device())) {
  begin_averages();
}

void Trained::begin_averages() { averages_ = averages_of(network_, how_.ema); }

std::function<double(const Leaf&, const Piece&)> Trained::shares() const {
  return [this](const Leaf& leaf, const Piece& piece) {
    return parallel_.share(chain().parameter(piece.param), leaf.reduced_by_link);
  };
}

void Trained::sum_gradients() {
  chain().reduce();
  parallel_.sum_gradients(chain().parameters(), chain().leaves());
}

double Trained::gradient_norm() const {
  return core::gradient_norm(chain().leaves(), shares(),
                             [&](double sum) { return parallel_.sum_of_world(sum); });
}

double Trained::weight_norm() const {
  return core::weight_norm(chain().leaves(), shares(),
                           [&](double sum) { return parallel_.sum_of_world(sum); });
}

bool Trained::step(int64_t step, double loss, double norm) {
  const bool is_finite = std::isfinite(loss) && std::isfinite(norm);
  skipped_in_a_row_ = is_finite ? 0 : skipped_in_a_row_ + 1;
  if (!is_finite) return false;
  std::vector<Ema*> averages;
  for (auto& e : averages_) averages.push_back(&e);
  optimizer_.step(how_.learning_rate(step), how_.clip_norm > 0 ? clip_factor(norm, how_.clip_norm) : 1,
                  averages);
  return true;
}

void Trained::record_gradients(bool on) {
  for (auto& leaf : chain().leaves())
    if (!leaf.frozen) leaf.tensor.set_requires_grad(on);
}

// For an adapter's training without the frozen weights, which are in the file that it started from.
Holding Trained::kept(std::vector<at::Tensor> per_leaf) const {
  for (size_t i = 0; chain().lora() && i < per_leaf.size(); ++i)
    if (chain().leaves()[i].frozen) per_leaf[i].reset();
  return held(chain().parameters(), chain().leaves(), per_leaf);
}

void Trained::save(TrainState& state, CheckpointFiles& files) {
  const auto add = [&](const std::string& file, const std::string& prefix, Holding part) {
    if (!is_result()) part.prefix = how_.name + "." + prefix + part.prefix;
    files[is_result() ? file : "more"].push_back(std::move(part));
  };
  add("weights", "weight.", kept(values_of(chain().leaves())));
  for (auto& states : optimizer_.held_states()) add("optimizer", "", std::move(states));
  for (auto& e : averages_) {
    const std::string file = "ema-" + decay_name(e.decay());
    add(file, file + ".", kept(e.weights(chain().leaves())));
  }
  std::map<std::string, int64_t> counts{{"steps", optimizer_.steps()}};
  for (auto& e : averages_) counts["ema_updates"] = e.updates();
  if (skipped_in_a_row_ > 0) counts["skipped_in_a_row"] = skipped_in_a_row_;
  if (is_result()) {
    state.optimizer_steps = counts["steps"];
    state.ema_updates = counts["ema_updates"];
    state.skipped_in_a_row = skipped_in_a_row_;
    return;
  }
  NamedTensors tensors;
  for (const auto& [name, n] : counts) tensors[how_.name + "." + name] = at::full({1}, n, at::kLong);
  files["more"].push_back(held(tensors));
}

void Trained::restore(Checkpoint& from, const std::filesystem::path& folder) {
  NamedTensors own = is_result() ? NamedTensors() : taken(from.more, how_.name + ".");
  if (!is_result() && !own.contains("steps"))
    raise(KINORA_ERROR_INVALID, "the checkpoint has no {0}; remove the {0}, or choose another output folder",
          how_.name);
  const auto part = [&](NamedTensors& of_result, const std::string& prefix) {
    return is_result() ? std::exchange(of_result, {}) : taken(own, prefix);
  };
  const auto count = [&](int64_t of_result, const char* name) -> int64_t {
    const auto of_other = own.extract(name);
    return is_result() ? of_result : of_other.empty() ? 0 : of_other.mapped().item<int64_t>();
  };
  const int64_t steps = count(from.state.optimizer_steps, "steps"),
                updates = count(from.state.ema_updates, "ema_updates");
  skipped_in_a_row_ = count(from.state.skipped_in_a_row, "skipped_in_a_row");
  copy_into(chain(), part(from.weights, "weight."), values_of(chain().leaves()),
            [&](const std::string& name) { return chain().lora() && !is_lora(name); });
  std::set<std::string> frozen;  // they have no average
  for (const auto& p : chain().parameters())
    if (p.frozen) frozen.insert(p.name);
  for (auto& e : averages_) {
    const std::string decay = decay_name(e.decay());
    NamedTensors values = part(from.ema[decay], "ema-" + decay + ".");
    if (values.empty())
      raise(
          KINORA_ERROR_INVALID,
          "{}: the checkpoint has no averages {}with decay {}; restore the run file's ema, or choose another "
          "output folder",
          folder.string(), is_result() ? "" : "of the " + how_.name + " ", decay);
    copy_into(chain(), std::move(values), e.values(),
              [&](const std::string& name) { return frozen.contains(name); });
    e.set_updates(updates);
  }
  optimizer_.restore(part(from.optimizer, ""));
  optimizer_.set_steps(steps);
}

}  // namespace kinora::core
