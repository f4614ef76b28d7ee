#include "core/torch/trainer.hpp"

#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "core/log.hpp"
#include "core/run/cancel.hpp"
#include "core/torch/safe_tensors.hpp"

namespace kinora::core {
namespace {

using Clock = std::chrono::steady_clock;

std::filesystem::path checkpoints(const JobContext& context) { return context.folder() / "checkpoints"; }

// What was restored is copied, since tensors of a checkpoint borrow a read-only mapping.
void copy_into(const Network& network, const std::vector<Leaf>& leaves, const NamedTensors& from,
               const std::vector<at::Tensor>& to) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : from) names.push_back(name);
  distribute(const_cast<Network&>(network).chain().parameters(), leaves, to, names,
             [&](const std::string& name) { return from.count(name) ? from.at(name) : at::Tensor(); },
             {.allow_missing = true});
}

}  // namespace

Trainer::Trainer(JobContext& context, Network& network, Parallelism& parallel,
                 const OptimizerOptions& options)
    : context_(context),
      network_(network),
      parallel_(parallel),
      options_(options),
      optimizer_(network.chain().parameters(), network.chain().leaves(),
                 {options.beta1, options.beta2, options.eps, options.weight_decay, {}}) {
  if (options_.batch % (options_.accumulate * parallel.data_size()) != 0)
    throw Error(KINORA_INVALID, "batch = " + std::to_string(options_.batch) + " must divide by accumulate (" +
                                    std::to_string(options_.accumulate) + ") times data-parallel ranks (" +
                                    std::to_string(parallel.data_size()) + ")");
  const auto latest = latest_checkpoint(checkpoints(context_));
  if (!latest && !options_.weights.empty()) network_.load(options_.weights);
  if (options_.ema > 0) ema_ = std::make_unique<Ema>(network_.chain().leaves(), options_.ema, true);
  if (latest) restore();
  context_.metrics().rewind(step_);
}

void Trainer::restore() {
  const auto folder = latest_checkpoint(checkpoints(context_));
  const Checkpoint saved = load_checkpoint(*folder);
  auto& chain = network_.chain();
  load_values(chain.parameters(), chain.leaves(), saved.weights);
  NamedTensors first, second;
  split_moments(saved.optimizer, first, second);
  copy_into(network_, chain.leaves(), first, optimizer_.first_moments());
  copy_into(network_, chain.leaves(), second, optimizer_.second_moments());
  optimizer_.set_steps(saved.state.optimizer_steps);
  if (ema_) {
    copy_into(network_, chain.leaves(), saved.ema, ema_->values());
    ema_->set_updates(saved.state.ema_updates);
  }
  step_ = saved.state.step;
  loss_ = saved.state.loss;
  skipped_ = saved.state.skipped;
  log_info("{}: going on after step {}", context_.spec().name, step_);
}

void Trainer::save(int64_t steps_done) {
  auto& chain = network_.chain();
  Checkpoint out;
  out.state.step = steps_done;
  out.state.samples_seen = steps_done * options_.batch;
  out.state.optimizer_steps = optimizer_.steps();
  out.state.loss = loss_;
  out.state.skipped = skipped_;
  out.weights = assemble(chain.parameters(), chain.leaves());
  out.optimizer = join_moments(assemble(chain.parameters(), chain.leaves(), optimizer_.first_moments()),
                               assemble(chain.parameters(), chain.leaves(), optimizer_.second_moments()));
  if (ema_) {
    out.state.ema_updates = ema_->updates();
    out.ema = assemble(chain.parameters(), chain.leaves(), ema_->values());
  }
  if (parallel_.rank() != 0) return;
  save_checkpoint(checkpoints(context_), out);
  prune_checkpoints(checkpoints(context_), options_.keep);
}

MicroLoss Trainer::gradients(int64_t step, const std::function<MicroLoss(int64_t, int64_t)>& micro_loss) {
  const int64_t count = options_.batch / options_.accumulate / parallel_.data_size();
  MicroLoss total;
  double loss = 0;
  for (int64_t micro = 0; micro < options_.accumulate; ++micro) {
    const int64_t first =
        step * options_.batch + (micro * parallel_.data_size() + parallel_.data_rank()) * count;
    kinora_pass pass{};
    pass.struct_size = sizeof pass;
    pass.first_sample = first;
    pass.micro = micro;
    pass.seed = static_cast<uint64_t>(context_.run().seed);
    network_.chain().begin(pass);
    MicroLoss one = micro_loss(first, count);
    one.loss.backward();
    loss += one.loss.item<double>();
    for (const auto& [name, value] : one.figures) total.figures[name] += value;
  }
  network_.chain().reduce();
  parallel_.sum_gradients(network_.chain().parameters(), network_.chain().leaves());
  for (auto& [name, value] : total.figures) value = parallel_.sum(value);
  total.figures["loss"] = parallel_.sum(loss);
  return total;
}

void Trainer::update(int64_t step, json& line) {
  auto& leaves = network_.chain().leaves();
  const double norm = gradient_norm(leaves);
  const double learning_rate =
      rate({options_.schedule, options_.learning_rate, 0, options_.warmup, options_.steps}, step);
  line["gradient_norm"] = norm;
  line["learning_rate"] = learning_rate;
  if (!std::isfinite(norm) || !std::isfinite(line["loss"].get<double>())) {
    skip(step, line);
  } else {
    in_a_row_ = 0;
    loss_ = line["loss"];
    if (options_.clip_norm > 0) clip_gradients(leaves, norm, options_.clip_norm);
    optimizer_.step(learning_rate);
    if (ema_) ema_->update(leaves);
  }
  optimizer_.zero_grad();
}

void Trainer::skip(int64_t step, json& line) {
  log_warn("{}: step {}: the gradient or the loss is not finite; the step is skipped", context_.spec().name,
           step + 1);
  line["skipped"] = true;
  ++skipped_;
  ++in_a_row_;
}

void Trainer::run(const std::function<MicroLoss(int64_t, int64_t)>& micro_loss) {
  Progress progress(context_.spec().name, options_.steps, "steps");
  const auto start = Clock::now();
  const int64_t first_step = step_;
  for (; step_ < options_.steps;) {
    const auto step_start = Clock::now();
    json line{{"step", step_ + 1}};
    for (const auto& [name, value] : gradients(step_, micro_loss).figures) line[name] = value;
    update(step_, line);
    ++step_;
    line["seconds"] = std::chrono::duration<double>(Clock::now() - step_start).count();
    if (parallel_.rank() == 0 && (step_ % options_.log_every == 0 || step_ == options_.steps))
      context_.metrics().line(line);
    progress.update(step_, "loss " + std::to_string(loss_).substr(0, 6));
    if (in_a_row_ >= options_.max_skipped)
      throw Error(KINORA_FAILED,
                  fmt::format("job '{}': step {}: the gradient or the loss was not finite in {} steps in a "
                              "row; lower learning_rate ({}) or "
                              "clip_norm ({}), raise warmup ({}), or see metrics.jsonl for where it began",
                              context_.spec().name, step_, in_a_row_, options_.learning_rate,
                              options_.clip_norm, options_.warmup));
    const bool stop = cancelled();
    if (stop || step_ % options_.checkpoint_every == 0 || step_ == options_.steps) save(step_);
    if (stop) throw Error(KINORA_CANCELLED, "cancelled");
  }
  seconds_per_step_ = std::chrono::duration<double>(Clock::now() - start).count() /
                      std::max<double>(1, static_cast<double>(step_ - first_step));
}

void Trainer::use_average() {
  if (ema_) ema_->swap(network_.chain().leaves());
}

void Trainer::save_weights() {
  auto& chain = network_.chain();
  const NamedTensors weights = assemble(chain.parameters(), chain.leaves());
  if (parallel_.rank() == 0) write_tensors(context_.folder() / "weights.safetensors", weights);
}

}  // namespace kinora::core
