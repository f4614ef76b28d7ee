// The files of a training: checkpoints while it runs, weights when it is done.
#include <algorithm>
#include <set>
#include <utility>

#include "core/base/log.hpp"
#include "plugins/jobs/training/generating/trained_precision.hpp"
#include "plugins/jobs/training/trainer.hpp"

namespace kinora::core {
namespace {

// Restored tensors are copied, since tensors of a checkpoint borrow a read-only mapping.
void copy_into(const Chain& chain, NamedTensors from, const std::vector<at::Tensor>& to) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : from) names.push_back(name);
  std::set<std::string> frozen;  // they have no average
  for (const auto& p : chain.parameters())
    if (p.frozen) frozen.insert(p.name);
  const LoadOptions how{.may_miss = [&](const std::string& name) { return frozen.contains(name); }};
  distribute(chain.parameters(), chain.leaves(), to, names, taking_from(from), how);
}

// The leaves to store in a checkpoint: for an adapter's training none of the frozen ones, which are in the
// file that the training started from.
std::vector<at::Tensor> checkpointed(const Chain& chain, std::vector<at::Tensor> per_leaf) {
  for (size_t i = 0; chain.lora() && i < per_leaf.size(); ++i)
    if (chain.leaves()[i].frozen) per_leaf[i].reset();
  return per_leaf;
}

// Notes in files of weights which of them the training rounds, as its table says, and how: `kinora convert
// --precision` rounds these and no others, by this rule.
void note_low_weights(std::vector<TensorFile>& files, const json& table, const ComponentUse* precision) {
  json low = json::array();
  for (const auto& row : table) low.push_back(row.at("layer"));
  const json rule = rule_of_weights(precision);
  for (auto& file : files) {
    if (low.empty() || (!file.name.starts_with("weights") && !file.name.starts_with("ema-"))) continue;
    file.metadata["low_weights"] = low.dump();
    if (!rule.empty()) file.metadata["low_rule"] = rule.dump();
  }
}

}  // namespace

void Trainer::restore(const std::filesystem::path& folder) {
  Checkpoint saved = load_checkpoint(folder);
  auto& chain = network_.chain();
  LoadOptions how;
  if (chain.lora()) how.may_miss = [](const std::string& name) { return !is_lora(name); };
  std::vector<std::string> names;
  for (const auto& [name, tensor] : saved.weights) names.push_back(name);
  load_values(chain.parameters(), chain.leaves(), names, taking_from(saved.weights), how);
  optimizer_.restore(std::exchange(saved.optimizer, {}));
  optimizer_.set_steps(saved.state.optimizer_steps);
  for (auto& e : averages_) {
    const auto kept = saved.ema.find(decay_name(e.decay()));
    if (kept == saved.ema.end())
      throw Error(KINORA_ERROR_INVALID, folder.string() + ": the checkpoint has no averages with decay " +
                                            decay_name(e.decay()) +
                                            "; restore the run file's ema, or choose another output folder");
    copy_into(chain, std::move(kept->second), e.values());
    e.set_updates(saved.state.ema_updates);
  }
  step_ = saved.state.step;
  loss_ = saved.state.loss;
  skipped_ = saved.state.skipped;
  in_a_row_ = saved.state.skipped_in_a_row;
  by_sigma_ = saved.state.by_sigma;
  rounding_.restore(saved.state.rounding);
  restored_ = saved.more;
  restored_lost_ = saved.state.lost;
  if (saved.state.facts.is_object()) facts = saved.state.facts;
  say_resumed(saved.state.steps);
}

// The end of the schedule moves with the last step, so the learning rate may rise again.
void Trainer::say_resumed(int64_t before) const {
  std::string more;
  if (before > 0 && before != options_.steps && step_ < options_.steps)
    more = fmt::format(
        "; steps was {} and is {}, so the {} schedule ends at step {}: the learning rate was {:.3g} and "
        "continues at {:.3g}",
        before, options_.steps, options_.schedule, options_.steps,
        rate(schedule(before), std::max<int64_t>(step_ - 1, 0)), rate(schedule(options_.steps), step_));
  log_info("{}: resuming after step {}{}", context_.spec().name, step_, more);
}

void Trainer::save() {
  auto& chain = network_.chain();
  const auto kept = [&](const std::vector<at::Tensor>& per_leaf) {
    return held(chain.parameters(), chain.leaves(), checkpointed(chain, per_leaf));
  };
  TrainState state;
  state.step = step_;
  state.steps = options_.steps;
  state.facts = facts;
  state.samples_seen = step_ * options_.batch;
  state.optimizer_steps = optimizer_.steps();
  state.loss = loss_;
  state.skipped = skipped_;
  state.skipped_in_a_row = in_a_row_;
  state.by_sigma = by_sigma_;
  state.rounding = rounding_.state();
  if (lost) state.lost = lost->state();
  auto files = checkpoint_files(kept(values_of(chain.leaves())), optimizer_.held_states());
  for (auto& e : averages_) {
    state.ema_updates = e.updates();
    files.push_back(checkpoint_file("ema-" + decay_name(e.decay()), kept(e.weights(chain.leaves()))));
  }
  if (job_state) files.push_back(checkpoint_file("more", held(job_state())));
  note_low_weights(files, rounding_.table(), context_.spec().component("precision"));
  writer_.start(std::move(state), std::move(files));
}

void Trainer::with_average(const std::function<void()>& f) {
  if (averages_.empty()) return f();
  averages_[0].swap(network_.chain().leaves());
  try {
    f();
  } catch (...) {
    averages_[0].swap(network_.chain().leaves());
    throw;
  }
  averages_[0].swap(network_.chain().leaves());
}

void Trainer::use_average() {
  if (averages_.empty()) return;
  averages_[0].swap(network_.chain().leaves());
  averaged_ = !averaged_;
}

TensorFile Trainer::weights_file(const std::string& name, const std::vector<at::Tensor>& per_leaf) const {
  const auto& chain = network_.chain();
  if (!chain.lora()) return {.name = name, .holdings = {held(chain.parameters(), chain.leaves(), per_leaf)}};
  auto frozen = per_leaf, trained = per_leaf;  // only the adapter's matrices are trained
  for (size_t i = 0; i < per_leaf.size(); ++i) (chain.leaves()[i].frozen ? trained : frozen)[i].reset();
  const auto pairs = adapter_pairs(assemble(chain.parameters(), chain.leaves(), trained, exchange_));
  return {.name = name,
          .holdings = {held(chain.parameters(), chain.leaves(), frozen)},
          .change = [pairs, scale = chain.lora()->scale()](const std::string& weight, const at::Tensor& t) {
            const auto pair = pairs.find(module_of(weight));
            return pair == pairs.end() ? t : merged(t, {pair->second.a, pair->second.b, scale});
          }};
}

void Trainer::save_weights() {
  const auto& chain = network_.chain();
  if (const auto* lora = chain.lora()) {
    const auto pairs = network_.adapter(exchange_);
    exchange_.on_first([&] {
      write_adapter(context_.folder() / "adapter", *lora, pairs,
                    options_.weights.empty() ? "" : options_.weights.back().string());
    });
  }
  std::vector<TensorFile> files{weights_file("weights.safetensors", values_of(chain.leaves()))};
  for (size_t i = 0; i < averages_.size(); ++i) {
    const bool in_network = i == 0 && averaged_;
    files.push_back(
        weights_file("weights.ema-" + decay_name(averages_[i].decay()) + ".safetensors",
                     in_network ? values_of(chain.leaves()) : averages_[i].weights(chain.leaves())));
  }
  note_low_weights(files, rounding_.table(), context_.spec().component("precision"));
  write_files(context_.folder(), files, exchange_, static_cast<uint64_t>(options_.shard_size));
}

}  // namespace kinora::core
