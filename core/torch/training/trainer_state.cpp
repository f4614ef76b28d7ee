// What a training keeps on disk: checkpoints while it runs, weights when it is done.
#include "core/log.hpp"
#include "core/torch/training/trainer.hpp"
#include "core/torch/weights/safe_tensors.hpp"

namespace kinora::core {
namespace {

// What was restored is copied, since tensors of a checkpoint borrow a read-only mapping.
void copy_into(const Chain& chain, const NamedTensors& from, const std::vector<at::Tensor>& to) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : from) names.push_back(name);
  distribute(chain.parameters(), chain.leaves(), to, names,
             [&](const std::string& name) { return from.count(name) ? from.at(name) : at::Tensor(); },
             {.allow_missing = true});
}

// Per leaf, what a checkpoint keeps: of an adapter's training nothing that is frozen, which is in the file
// that the training began with.
std::vector<at::Tensor> checkpointed(const Chain& chain, std::vector<at::Tensor> per_leaf) {
  for (size_t i = 0; chain.lora() && i < per_leaf.size(); ++i)
    if (chain.leaves()[i].frozen) per_leaf[i].reset();
  return per_leaf;
}

std::vector<at::Tensor> values_of(const Chain& chain) {
  std::vector<at::Tensor> out;
  for (const auto& leaf : chain.leaves()) out.push_back(leaf.tensor);
  return out;
}

}  // namespace

void Trainer::restore(const std::filesystem::path& folder) {
  const Checkpoint saved = load_checkpoint(folder);
  auto& chain = network_.chain();
  LoadOptions how;
  if (chain.lora()) how.may_miss = [](const std::string& name) { return !is_lora(name); };
  load_values(chain.parameters(), chain.leaves(), saved.weights, how);
  NamedTensors first, second;
  split_moments(saved.optimizer, first, second);
  copy_into(chain, first, optimizer_.first_moments());
  copy_into(chain, second, optimizer_.second_moments());
  optimizer_.set_steps(saved.state.optimizer_steps);
  for (auto& e : averages_) {
    const auto kept = saved.ema.find(decay_name(e.decay()));
    if (kept == saved.ema.end())
      throw Error(KINORA_INVALID, folder.string() + ": has no averages of decay " + decay_name(e.decay()) +
                                      "; restore the run file's ema, or choose another output folder");
    copy_into(chain, kept->second, e.values());
    e.set_updates(saved.state.ema_updates);
  }
  step_ = saved.state.step;
  loss_ = saved.state.loss;
  skipped_ = saved.state.skipped;
  by_sigma_ = saved.state.by_sigma;
  restored_ = saved.more;
  log_info("{}: going on after step {}", context_.spec().name, step_);
}

// assemble() copies: what the writer gets is nobody else's, and training goes on while it writes.
void Trainer::save() {
  auto& chain = network_.chain();
  const auto copied = [&](const std::vector<at::Tensor>& per_leaf) {
    return assemble(chain.parameters(), chain.leaves(), checkpointed(chain, per_leaf));
  };
  Checkpoint out;
  out.state.step = step_;
  out.state.samples_seen = step_ * options_.batch;
  out.state.optimizer_steps = optimizer_.steps();
  out.state.loss = loss_;
  out.state.skipped = skipped_;
  out.state.by_sigma = by_sigma_;
  out.weights = copied(values_of(chain));
  out.optimizer = join_moments(copied(optimizer_.first_moments()), copied(optimizer_.second_moments()));
  if (job_state) out.more = job_state();
  for (auto& e : averages_) {
    out.state.ema_updates = e.updates();
    out.ema[decay_name(e.decay())] = copied(e.values());
  }
  if (parallel_.rank() != 0) return;
  writer_.start(
      [out = std::move(out), root = checkpoints(), keep = options_.keep, keep_every = options_.keep_every] {
        save_checkpoint(root, out);
        prune_checkpoints(root, keep, keep_every);
      });
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

void Trainer::save_weights() {
  auto& chain = network_.chain();
  const bool writes = parallel_.rank() == 0;
  const auto write = [&](const std::string& name, NamedTensors tensors) {
    if (!writes) return;
    if (const auto* lora = chain.lora()) merge_adapter(tensors, *lora);
    write_tensors(context_.folder() / name, tensors);
  };
  if (const auto* lora = chain.lora()) {
    const auto pairs = network_.adapter();
    if (writes)
      write_adapter(context_.folder() / "adapter", *lora, pairs,
                    options_.weights.empty() ? "" : options_.weights.back().string());
  }
  write("weights.safetensors", assemble(chain.parameters(), chain.leaves()));
  for (size_t i = 0; i < averages_.size(); ++i) {
    const bool in_network = i == 0 && averaged_;
    write("weights.ema-" + decay_name(averages_[i].decay()) + ".safetensors",
          in_network ? assemble(chain.parameters(), chain.leaves())
                     : assemble(chain.parameters(), chain.leaves(), averages_[i].values()));
  }
}

}  // namespace kinora::core
