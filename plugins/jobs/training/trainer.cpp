#include "plugins/jobs/training/trainer.hpp"

#include <chrono>
#include <cmath>
#include <fstream>

#include <fmt/format.h>

#include "core/base/cancel.hpp"
#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/io/contents.hpp"
#include "core/torch/tensors/device.hpp"
#include "host/weights/safetensors.hpp"
#include "host/weights/weights.hpp"

namespace kinora::core {
namespace {

using Clock = std::chrono::steady_clock;

Decay decay_of(const OptimizerOptions& o) {
  if (!o.decay_all) return usual_decay(o.weight_decay);
  return [decay = o.weight_decay](const Parameter& p) { return p.shape.size() > 1 ? decay : 0; };
}

Schedule schedule_of(const OptimizerOptions& o, int64_t steps) {
  return {o.schedule, o.learning_rate, o.final_rate, o.warmup, steps, o.decay_share, o.decay_shape};
}

std::string loss_name(const Trained& one) { return one.is_result() ? "loss" : one.how().name; }
std::string whose(const Trained& one) { return one.is_result() ? "" : one.how().name + "'s "; }

// Compares weights that another training wrote with its list of files.
void require_whole(const std::vector<std::filesystem::path>& weights, const std::filesystem::path& kept) {
  for (const auto& path : weights)
    if (const auto file = Safetensors::open(path))
      for (const auto& one : file->files()) require_as_listed(one, kept);
}

// Sums of many kinds in one transfer: pack, sum, unpack in the same order.
template <class Each>
void sum_over_ranks(const Parallelism& parallel, Each each) {
  std::vector<double> all;
  each([&](double& x) { all.push_back(x); });
  all = parallel.sum(all, /*of_stages=*/true);
  size_t i = 0;
  each([&](double& x) { x = all[i++]; });
}

}  // namespace

Trained::How how_of(const OptimizerOptions& o) {
  return {
      .learning_rate = [schedule = schedule_of(o, o.steps)](int64_t step) { return rate(schedule, step); },
      .decay = decay_of(o),
      .clip_norm = o.clip_norm,
      .ema = o.ema};
}

void require_batch(const OptimizerOptions& o, int64_t data_ranks) {
  const int64_t step = o.accumulate * data_ranks;
  if (o.batch % step != 0)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("batch = {} must be a multiple of accumulate ({}) times the ranks "
                            "that hold different samples ({}); {} would do",
                            o.batch, o.accumulate, data_ranks, (o.batch / step + 1) * step));
}

Trainer::Trainer(JobContext& context, TrainingTask& task, std::vector<Trained*> trained,
                 Parallelism& parallel, const OptimizerOptions& options)
    : context_(context),
      task_(task),
      trained_(std::move(trained)),
      result_(*trained_.at(0)),
      network_(result_.network()),
      parallel_(parallel),
      options_(options),
      exchange_(parallel.group("world"), device()),
      writer_(checkpoints(), exchange_,
              {options.async_checkpoints, static_cast<uint64_t>(options.shard_size), options.keep,
               options.keep_every}),
      live_(context.spec().name, context.folder(), options.steps) {
  require_batch(options_, parallel.data_size());
  if (trained_.size() > 1 && parallel.group("pp").size > 1)
    throw Error(KINORA_ERROR_INVALID,
                "parallel: a pipeline trains one network, and this job trains several; use "
                "other strategies than pp");
  const auto latest = whole_checkpoint(checkpoints(), exchange_);
  // An adapter's checkpoints leave out the weights that it adapts.
  const bool begins = (!latest || network_.chain().lora()) && !options_.weights.empty();
  if (begins) exchange_.on_first([&] { require_whole(options_.weights, kept_digests(context.run().out)); });
  exchange_.together([&] {
    if (begins) network_.load(options_.weights);
    result_.begin_averages();
    if (latest) restore(*latest);
  });
  context_.metrics().rewind(step_);
  if (options_.tensorboard && parallel_.rank() == 0) board_.emplace(context_.folder() / "tensorboard", step_);
}

std::vector<size_t> Trainer::due() const {
  std::vector<size_t> out;
  for (size_t role = 0; role < trained_.size(); ++role)
    if (trained_[role]->is_due(step_)) out.push_back(role);
  return out;
}

int64_t Trainer::first_sample(int64_t microbatch) const {
  return step_ * options_.batch + (microbatch * parallel_.data_size() + parallel_.data_rank()) * samples();
}

void Trainer::begin(kinora_pass pass) {
  pass.first_sample = first_sample(pass.microbatch);
  pass.seed = static_cast<uint64_t>(context_.run().seed);
  pass.step = step_;
  pass.steps = options_.steps;
  const auto numbers = task_.numbers(pass.first_sample, samples());
  for (Trained* one : trained_) one->chain().begin(pass, numbers);
}

void Trainer::prepare_after(int64_t microbatch) {
  const bool is_last = step_ + 1 == options_.steps && microbatch + 1 == options_.accumulate;
  if (!is_last) task_.prepare(first_sample(microbatch + 1), samples());
}

void Trainer::record_only(const Trained* only) {
  if (trained_.size() == 1) return;
  for (Trained* one : trained_) one->record_gradients(!only || one == only);
}

void Trainer::gradients(json& line) {
  const auto due = this->due();
  double loss = 0, tokens = 0, loss_share = 0;  // loss: the result's
  std::map<std::string, double> figures;        // the losses of the others among them
  by_sigma_of_step_ = {};
  std::map<int64_t, std::pair<size_t, at::Tensor>> waiting;  // by microbatch: a role's loss, for its backward
  bool has_loss = false;                                     // the last stage of a pipeline, or every rank
  const auto backward = [&](const kinora_pass& pass) {
    const auto one = waiting.extract(pass.microbatch);
    if (one.empty()) return;
    const auto& [role, its_loss] = one.mapped();
    its_loss.backward();
    if (role == due.back()) prepare_after(pass.microbatch);
    (role == 0 ? loss : figures[loss_name(*trained_[role])]) += its_loss.item<double>();
  };
  const auto forward = [&](const kinora_pass& pass) {
    begin(pass);
    try {
      for (const size_t role : due) {
        backward(pass);  // of the role before, whose graph is then gone
        record_only(trained_[role]);
        MicroLoss one = task_.micro_loss(role, first_sample(pass.microbatch), samples());
        for (const auto& [name, value] : one.figures) figures[name] += value;
        if (role == 0) by_sigma_of_step_ += one.by_sigma;
        loss_share +=
            one.loss_share / static_cast<double>(options_.accumulate) / static_cast<double>(due.size());
        waiting[pass.microbatch] = {role, std::move(one.loss)};
      }
      return has_loss = true;
    } catch (const Stop&) {
      return false;
    }
  };
  if (!due.empty()) parallel_.step({options_.accumulate, forward, backward, device()});
  record_only(nullptr);
  for (const size_t role : due) trained_[role]->sum_gradients();
  const auto counted = task_.take_tokens();
  if (has_loss) tokens = static_cast<double>(counted.all);
  own_tokens_ = static_cast<double>(counted.own);
  own_loss_tokens_ = static_cast<double>(counted.learnt) * loss_share;
  sum_over_ranks(parallel_, [&](auto&& add) {
    add(loss);
    add(tokens);
    for (auto& [name, value] : figures) add(value);
    for (double& x : by_sigma_of_step_.sum) add(x);
    for (double& x : by_sigma_of_step_.count) add(x);
  });
  for (const auto& [name, value] : figures) line[name] = value;
  if (result_.is_due(step_)) line["loss"] = loss;
  tokens_ = static_cast<int64_t>(tokens);
}

Schedule Trainer::schedule(int64_t steps) const { return schedule_of(options_, steps); }

void Trainer::keep_loss(const json& line) {
  loss_ = line["loss"];
  by_sigma_.fade();
  by_sigma_ += by_sigma_of_step_;
}

void Trainer::update(json& line) {
  bool is_whole = true;
  for (const size_t role : due()) {
    Trained& one = *trained_[role];
    const double norm = one.gradient_norm();
    line[one.is_result() ? "gradient_norm" : one.how().name + "_gradient_norm"] = norm;
    if (one.is_result()) line["learning_rate"] = one.how().learning_rate(step_);
    if (!one.step(step_, line[loss_name(one)], norm)) {
      log_warn("{}: step {}: the {}gradient or the loss is not finite; {} step is skipped",
               context_.spec().name, step_ + 1, whose(one), one.is_result() ? "the" : "its");
      line["skipped"] = true;
      is_whole = false;
    } else if (one.is_result()) {
      keep_loss(line);
    }
    one.zero_grad();
  }
  if (!is_whole) ++skipped_;
}

void Trainer::fail_if_stuck() const {
  for (const Trained* one : trained_) {
    if (one->skipped_in_a_row() < options_.max_skipped) continue;
    const std::string cure =
        one->is_result() ? fmt::format("lower learning_rate ({}) or clip_norm ({}), raise warmup ({})",
                                       options_.learning_rate, options_.clip_norm, options_.warmup)
                         : fmt::format("lower its learning rate ({})", one->how().learning_rate(step_));
    throw Error(
        KINORA_ERROR_FAILED,
        fmt::format("step {}: the {}gradient or the loss was not finite in {} steps in a row; {}, or see "
                    "metrics.jsonl for where it began",
                    step_, whose(*one), one->skipped_in_a_row(), cure));
  }
}

void Trainer::fail_if_nothing_learnt() const {
  for (const Trained* one : trained_)
    if (one->optimizer().steps() == 0 && one->skipped_in_a_row() > 0)
      throw Error(
          KINORA_ERROR_FAILED,
          fmt::format("the {}gradient or the loss was not finite in any of the {} steps, so nothing was "
                      "learnt; look at the weights, the data and the precision",
                      whose(*one), one->skipped_in_a_row()));
}

void Trainer::measure(json& line, double seconds, int64_t tokens) {
  line["seconds"] = seconds;
  throughput_.add(line, seconds, static_cast<double>(options_.batch), static_cast<double>(tokens));
  line["weight_norm"] = result_.weight_norm();
  if (!by_sigma_.empty()) line["loss_by_sigma"] = by_sigma_.means();
  add_memory(line, device());
}

void Trainer::log(const json& line) {
  if (parallel_.rank() != 0) return;
  context_.metrics().line(line);
  if (!board_) return;
  for (const auto& [name, value] : line.items())
    if (value.is_number() && name != "step")
      board_->scalar(step_, (name.starts_with("validation") ? "" : "train/") + name, value.get<double>());
  if (!by_sigma_.empty()) {
    const auto& means = line.at("loss_by_sigma").at("mean");
    for (size_t i = 0; i < means.size(); ++i)
      if (means[i].is_number())
        board_->scalar(step_, "loss_by_sigma/" + SigmaLosses::range_of(i), means[i].get<double>());
  }
  board_->flush();
}

void Trainer::publish(const json& line) {
  if (parallel_.rank() != 0 || (seconds_since(published_) < 1 && step_ < options_.steps)) return;
  published_ = Clock::now();
  live_.update_training(line, task_.loading());
}

void Trainer::picture(int64_t step, const std::string& tag, const std::filesystem::path& png) {
  if (!board_) return;
  std::ifstream in(png, std::ios::binary);
  board_->image(step, tag, std::string{std::istreambuf_iterator<char>(in), {}});
}

void Trainer::share_lost(bool at_end) {
  LostSamples* const lost = task_.lost();
  if (!lost) return;
  lost->set_used(step_ * options_.batch);
  if (at_end || parallel_.any(lost->has_new())) lost->merge(exchange_.gather(lost->take_shared(at_end)));
  if (at_end && parallel_.rank() == 0) lost->log();
}

bool Trainer::keep() {
  writer_.check();
  const bool stop = parallel_.any(cancelled()), asked = parallel_.any(take_save_request());
  if (stop || asked || step_ % options_.checkpoint_every == 0 || step_ == options_.steps) {
    const auto start = Clock::now();
    save();
    if (stop || step_ == options_.steps) writer_.finish();
    saving_ += seconds_since(start);
  }
  return stop;
}

void Trainer::begin_run() {
  throughput_.flops_per_sample = task_.flops_per_sample();
  throughput_.ranks = parallel_.world();
  throughput_.peak_flops = options_.peak_flops;
  throughput_.is_measured = options_.peak_flops == 0;
  if (throughput_.flops_per_sample > 0 && options_.peak_flops == 0)
    throughput_.peak_flops = measured_peak_flops(device(), parallel_.product_dtype());
  LostSamples* const lost = task_.lost();
  if (lost) lost->set_used(step_ * options_.batch);
  if (lost && !restored_lost_.is_null()) lost->restore(restored_lost_);
}

void Trainer::run() {
  begin_run();
  Progress progress(context_.spec().name, options_.steps, "steps");
  const auto start = Clock::now();
  const int64_t first_step = step_;
  while (step_ < options_.steps) {
    const auto step_start = Clock::now();
    json line{{"step", step_ + 1}};
    balance_.begin_step();
    const bool measured = (step_ + 1) % options_.checkpoint_every == 0 || step_ + 1 == options_.steps;
    rounding_.begin_step(step_ + 1, measured);
    task_.begin_step(step_);
    gradients(line);
    rounding_.end_step(line);
    update(line);
    ++step_;
    share_lost(/*at_end=*/false);
    const SamplesMade made = task_.take_samples_made();
    balance_.end_step(own_tokens_, own_loss_tokens_, static_cast<double>(made.encoded_frames),
                      static_cast<double>(made.bytes_read.value_or(0)));
    const double seconds = seconds_since(step_start);
    const bool more = task_.after_step(step_, line);
    if (logs(step_)) balance_.log(context_.spec().name, line);
    if (logs(step_) && made.bytes_read) line["data_bytes"] = balance_.data_bytes();
    if (more || logs(step_)) {
      measure(line, seconds, tokens_);
      log(line);
      publish(line);
    }
    progress.update(step_, "loss " + std::to_string(loss_).substr(0, 6));
    fail_if_stuck();
    if (keep()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  }
  fail_if_nothing_learnt();
  running_ = seconds_since(start);
  balance_.finish(context_.spec().name);
  share_lost(/*at_end=*/true);
  seconds_per_step_ = running_ / std::max<double>(1, static_cast<double>(step_ - first_step));
}

json Trainer::summary() const {
  json out{{"steps", options_.steps},
           {"loss", loss_},
           {"skipped", skipped_},
           {"parameters", network_.numel()},
           {"seconds_per_step", seconds_per_step_}};
  if (running_ > 0) out["checkpoint_share"] = saving_ / running_;
  if (throughput_.flops_per_sample > 0) out["flops_per_sample"] = throughput_.flops_per_sample;
  if (throughput_.peak_flops > 0) out["peak_flops"] = throughput_.peak_flops;
  add_memory(out, device());
  out.update(balance_.summary());
  if (!rounding_.table().empty()) {
    out["rounding"] = rounding_.table();
    out["rounding_step"] = rounding_.step();
  }
  if (!by_sigma_.empty()) {
    out["loss_by_sigma"] = by_sigma_.means();
    out["loss_by_sigma"]["edges"] = SigmaLosses::edges();
  }
  return out;
}

}  // namespace kinora::core
