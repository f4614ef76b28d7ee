// The files of a training: checkpoints while it runs, weights when it is done.
#include <algorithm>
#include <utility>

#include "core/base/digest.hpp"
#include "core/base/log.hpp"
#include "core/io/contents.hpp"
#include "plugins/jobs/inference/trained_precision.hpp"
#include "plugins/jobs/training/trainer.hpp"

namespace kinora::core {
namespace {

constexpr const char* kOfTask = "task.";  // names of the task's state in the file `more`

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
  for (Trained* one : trained_) one->restore(saved, folder);
  NamedTensors of_task = taken(saved.more, kOfTask);
  for (auto& [name, tensor] : of_task) tensor = tensor.clone();  // of a read-only mapping
  task_.restore(std::move(of_task));
  step_ = saved.state.step;
  loss_ = saved.state.loss;
  skipped_ = saved.state.skipped;
  by_sigma_ = saved.state.by_sigma;
  rounding_.restore(saved.state.rounding);
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
  TrainState state;
  state.step = step_;
  state.steps = options_.steps;
  state.facts = facts;
  state.samples_seen = step_ * options_.batch;
  state.loss = loss_;
  state.skipped = skipped_;
  state.by_sigma = by_sigma_;
  state.rounding = rounding_.state();
  if (const LostSamples* lost = task_.lost()) state.lost = lost->state();
  CheckpointFiles held_files;
  for (Trained* one : trained_) one->save(state, held_files);
  NamedTensors of_task;
  for (auto& [name, tensor] : task_.state()) of_task.emplace(kOfTask + name, tensor);
  if (!of_task.empty()) held_files["more"].push_back(held(of_task));
  auto files = checkpoint_files(std::move(held_files));
  note_low_weights(files, rounding_.table(), context_.spec().component("precision"));
  writer_.start(std::move(state), std::move(files));
}

void Trainer::with_average(const std::function<void()>& f) {
  const Averaged average(result_.averages(), network_.chain().leaves());
  f();
}

void Trainer::use_average() {
  if (result_.averages().empty()) return;
  result_.averages()[0].swap(network_.chain().leaves());
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
  std::vector<ListedFile> adapter;
  if (const auto* lora = chain.lora()) {
    const auto pairs = network_.adapter(exchange_);
    exchange_.on_first([&] {
      write_adapter(context_.folder() / "adapter", *lora, pairs,
                    options_.weights.empty() ? "" : options_.weights.back().string());
      // Small next to the weights, whose digests are computed while they are written.
      const std::string name = "adapter/adapter_model.safetensors";
      const auto file = context_.folder() / name;
      adapter.push_back({name, std::filesystem::file_size(file), sha256_of_file(file)});
    });
  }
  std::vector<TensorFile> files{weights_file("weights.safetensors", values_of(chain.leaves()))};
  const auto& averages = result_.averages();
  for (size_t i = 0; i < averages.size(); ++i) {
    const bool in_network = i == 0 && averaged_;
    files.push_back(
        weights_file("weights.ema-" + decay_name(averages[i].decay()) + ".safetensors",
                     in_network ? values_of(chain.leaves()) : averages[i].weights(chain.leaves())));
  }
  note_low_weights(files, rounding_.table(), context_.spec().component("precision"));
  auto written = write_files(context_.folder(), files, exchange_, static_cast<uint64_t>(options_.shard_size));
  written.insert(written.end(), adapter.begin(), adapter.end());
  context_.summary["files"] = list_json(written);
}

}  // namespace kinora::core
