#include "plugins/jobs/training/trainer.hpp"

#include <chrono>
#include <cmath>
#include <fstream>

#include <fmt/format.h>

#include "core/base/cancel.hpp"
#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/io/safetensors.hpp"
#include "core/run/weights.hpp"
#include "core/torch/tensors/device.hpp"
#include "plugins/jobs/training/norms.hpp"

namespace kinora::core {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<Ema> averages_of(Network& network, const std::vector<double>& decays) {
  std::vector<Ema> out;
  for (const double decay : decays)
    if (decay > 0) out.emplace_back(network.chain().leaves(), decay, /*rise=*/true);
  return out;
}

Decay decay_of(const OptimizerOptions& o) {
  if (!o.decay_all) return usual_decay(o.weight_decay);
  return [decay = o.weight_decay](const Parameter& p) { return p.shape.size() > 1 ? decay : 0; };
}

// Compares weights that are another training's checkpoint with its list of files.
void require_whole(const std::vector<std::filesystem::path>& weights) {
  for (const auto& path : weights)
    if (const auto file = Safetensors::open(path))
      for (const auto& one : file->files()) require_as_listed(one);
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

void require_batch(const OptimizerOptions& o, int64_t data_ranks) {
  const int64_t step = o.accumulate * data_ranks;
  if (o.batch % step != 0)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("batch = {} must be a multiple of accumulate ({}) times the ranks "
                            "that hold different samples ({}); {} would do",
                            o.batch, o.accumulate, data_ranks, (o.batch / step + 1) * step));
}

Trainer::Trainer(JobContext& context, Network& network, Parallelism& parallel,
                 const OptimizerOptions& options)
    : context_(context),
      network_(network),
      parallel_(parallel),
      options_(options),
      exchange_(parallel.group("world"), network.chain().leaves().at(0).tensor.device()),
      optimizer_(context.open_slot("optimizer"), context.spec().component("optimizer")->options,
                 network.chain().parameters(), network.chain().leaves(), decay_of(options), exchange_),
      writer_(checkpoints(), exchange_,
              {options.async_checkpoints, static_cast<uint64_t>(options.shard_size), options.keep,
               options.keep_every}),
      live_(context.spec().name, context.folder(), options.steps) {
  require_batch(options_, parallel.data_size());
  const auto latest = whole_checkpoint(checkpoints(), exchange_);
  // An adapter's checkpoints leave out the weights that it adapts.
  const bool begins = (!latest || network_.chain().lora()) && !options_.weights.empty();
  if (begins) exchange_.on_first([&] { require_whole(options_.weights); });
  exchange_.together([&] {
    if (begins) network_.load(options_.weights);
    averages_ = averages_of(network_, options_.ema);
    if (latest) restore(*latest);
  });
  context_.metrics().rewind(step_);
  if (options_.tensorboard && parallel_.rank() == 0) board_.emplace(context_.folder() / "tensorboard", step_);
}

void Trainer::gradients(const Micro& micro_loss, json& line) {
  const int64_t count = options_.batch / options_.accumulate / parallel_.data_size();
  double loss = 0, tokens = 0, loss_share = 0;
  std::map<std::string, double> figures;
  by_sigma_of_step_ = {};
  std::map<int64_t, at::Tensor> losses;  // by microbatch, of those whose backward is to come
  bool has_loss = false;                 // the last stage of a pipeline, or every rank
  const auto forward = [&](kinora_pass pass) {
    pass.first_sample =
        step_ * options_.batch + (pass.microbatch * parallel_.data_size() + parallel_.data_rank()) * count;
    pass.seed = static_cast<uint64_t>(context_.run().seed);
    pass.step = step_;
    pass.steps = options_.steps;
    network_.chain().begin(pass, numbers ? numbers(pass.first_sample, count) : std::vector<int64_t>());
    try {
      MicroLoss one = micro_loss(pass.first_sample, count);
      for (const auto& [name, value] : one.figures) figures[name] += value;
      by_sigma_of_step_ += one.by_sigma;
      loss_share += one.loss_share / static_cast<double>(options_.accumulate);
      losses[pass.microbatch] = std::move(one.loss);
      return has_loss = true;
    } catch (const Stop&) {
      return false;
    }
  };
  const auto backward = [&](const kinora_pass& pass) {
    const at::Tensor of_micro = losses.extract(pass.microbatch).mapped();
    of_micro.backward();
    const bool last = step_ + 1 == options_.steps && pass.microbatch + 1 == options_.accumulate;
    const int64_t first =
        step_ * options_.batch + (pass.microbatch * parallel_.data_size() + parallel_.data_rank()) * count;
    if (prepare && !last) prepare(first + parallel_.data_size() * count, count);
    loss += of_micro.item<double>();
  };
  parallel_.step({options_.accumulate, forward, backward}, nullptr);
  network_.chain().reduce();
  parallel_.sum_gradients(network_.chain().parameters(), network_.chain().leaves());
  const auto counted = take_tokens ? take_tokens() : TokenMeter::Count();
  tokens = static_cast<double>(counted.all);
  own_tokens_ = static_cast<double>(counted.own);
  own_loss_tokens_ = static_cast<double>(counted.learnt) * loss_share;
  if (!has_loss) tokens = 0;
  sum_over_ranks(parallel_, [&](auto&& add) {
    add(loss);
    add(tokens);
    for (auto& [name, value] : figures) add(value);
    for (double& x : by_sigma_of_step_.sum) add(x);
    for (double& x : by_sigma_of_step_.count) add(x);
  });
  for (const auto& [name, value] : figures) line[name] = value;
  line["loss"] = loss;
  tokens_ = static_cast<int64_t>(tokens);
}

std::function<double(const Leaf&, const Piece&)> Trainer::shares() const {
  return [this](const Leaf& leaf, const Piece& piece) {
    return parallel_.share(network_.chain().parameter(piece.param), leaf.reduced_by_link);
  };
}

Schedule Trainer::schedule(int64_t steps) const {
  return {options_.schedule,    options_.learning_rate, options_.final_rate, options_.warmup, steps,
          options_.decay_share, options_.decay_shape};
}

void Trainer::update(json& line) {
  auto& leaves = network_.chain().leaves();
  const double norm =
      gradient_norm(leaves, shares(), [&](double sum) { return parallel_.sum_of_world(sum); });
  const double learning_rate = rate(schedule(options_.steps), step_);
  line["gradient_norm"] = norm;
  line["learning_rate"] = learning_rate;
  if (!std::isfinite(norm) || !std::isfinite(line["loss"].get<double>())) {
    skip(line);
  } else {
    in_a_row_ = 0;
    loss_ = line["loss"];
    by_sigma_.fade();
    by_sigma_ += by_sigma_of_step_;
    std::vector<Ema*> averages;
    for (auto& e : averages_) averages.push_back(&e);
    optimizer_.step(learning_rate, options_.clip_norm > 0 ? clip_factor(norm, options_.clip_norm) : 1,
                    averages);
  }
  optimizer_.zero_grad();
}

void Trainer::skip(json& line) {
  log_warn("{}: step {}: the gradient or the loss is not finite; the step is skipped", context_.spec().name,
           step_ + 1);
  line["skipped"] = true;
  ++skipped_;
  ++in_a_row_;
}

void Trainer::fail_if_stuck() const {
  if (in_a_row_ < options_.max_skipped) return;
  throw Error(KINORA_ERROR_FAILED,
              fmt::format("step {}: the gradient or the loss was not finite in {} steps in a "
                          "row; lower learning_rate ({}) or "
                          "clip_norm ({}), raise warmup ({}), or see metrics.jsonl for where it began",
                          step_, in_a_row_, options_.learning_rate, options_.clip_norm, options_.warmup));
}

void Trainer::measure(json& line, double seconds, int64_t tokens) {
  line["seconds"] = seconds;
  throughput.add(line, seconds, static_cast<double>(options_.batch), static_cast<double>(tokens));
  line["weight_norm"] = weight_norm(network_.chain().leaves(), shares(),
                                    [&](double sum) { return parallel_.sum_of_world(sum); });
  if (!by_sigma_.empty()) line["loss_by_sigma"] = by_sigma_.means();
  add_memory(line, network_.chain().leaves().at(0).tensor.device());
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
  live_.update_training(line, loading ? loading() : json());
}

void Trainer::picture(int64_t step, const std::string& tag, const std::filesystem::path& png) {
  if (!board_) return;
  std::ifstream in(png, std::ios::binary);
  board_->image(step, tag, std::string{std::istreambuf_iterator<char>(in), {}});
}

void Trainer::share_lost(bool at_end) {
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

void Trainer::run(const Micro& micro_loss) {
  throughput.ranks = parallel_.world();
  throughput.peak_flops = options_.peak_flops;
  if (throughput.flops_per_sample > 0 && options_.peak_flops == 0)
    throughput.peak_flops =
        measured_peak_flops(network_.chain().leaves().at(0).tensor.device(), parallel_.product_dtype());
  if (lost) lost->set_used(step_ * options_.batch);
  if (lost && !restored_lost_.is_null()) lost->restore(restored_lost_);
  Progress progress(context_.spec().name, options_.steps, "steps");
  const auto start = Clock::now();
  const int64_t first_step = step_;
  while (step_ < options_.steps) {
    const auto step_start = Clock::now();
    json line{{"step", step_ + 1}};
    balance_.begin_step();
    const bool measured = (step_ + 1) % options_.checkpoint_every == 0 || step_ + 1 == options_.steps;
    rounding_.begin_step(step_ + 1, measured);
    if (begin_step) begin_step(step_);
    gradients(micro_loss, line);
    rounding_.end_step(line);
    update(line);
    ++step_;
    share_lost(/*at_end=*/false);
    const auto data_bytes = take_data_bytes ? take_data_bytes() : std::nullopt;
    balance_.end_step(own_tokens_, own_loss_tokens_, take_encoded ? static_cast<double>(take_encoded()) : 0,
                      static_cast<double>(data_bytes.value_or(0)));
    const double seconds = seconds_since(step_start);
    const bool more = on_step && on_step(step_, line);
    if (logs(step_)) balance_.log(context_.spec().name, line);
    if (logs(step_) && data_bytes) line["data_bytes"] = balance_.data_bytes();
    if (more || logs(step_)) {
      measure(line, seconds, tokens_);
      log(line);
      publish(line);
    }
    progress.update(step_, "loss " + std::to_string(loss_).substr(0, 6));
    fail_if_stuck();
    if (keep()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
  }
  if (skipped_ == options_.steps)
    throw Error(
        KINORA_ERROR_FAILED,
        fmt::format(
            "the gradient or the loss was not finite in any of the {} steps, so nothing was learnt; look at "
            "the weights, the data and the precision",
            options_.steps));
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
  if (throughput.flops_per_sample > 0) out["flops_per_sample"] = throughput.flops_per_sample;
  if (throughput.peak_flops > 0) out["peak_flops"] = throughput.peak_flops;
  add_memory(out, network_.chain().leaves().at(0).tensor.device());
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
