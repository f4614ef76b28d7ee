#include "plugins/parallel/pp/pipeline_link.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kinora/autograd.hpp"
#include "plugins/parallel/pp/schedule.hpp"

namespace kinora::pp {

using at::Tensor;

namespace {

constexpr int64_t kShared = Geometry::kTensors;  // number of the first shared tensor, after those of the flow

// With some of a list's sizes: "3 + 2 + 4".
std::string sum_of(const std::vector<int64_t>& sizes) {
  std::string out;
  for (const int64_t n : sizes) out += (out.empty() ? "" : " + ") + std::to_string(n);
  return out;
}

// Advice if there are more stages than blocks.
std::string fewer_stages(const Pipe& pipe, int64_t blocks) {
  const int64_t each = blocks / pipe.ranks;
  if (each > 1) return "virtual = " + std::to_string(each) + " would do";
  if (each == 1) return "schedule = \"1f1b\" would do";
  return "at most " + std::to_string(blocks) +
         " ranks can share it: give pp a smaller size, and the others to another strategy";
}

}  // namespace

PipelineLink::PipelineLink(Group<Tensor> group, const Pipe& pipe, How how)
    : Link(KINORA_LEVEL_PIPELINE), pipe_(pipe), how_(std::move(how)), messages_(group) {
  skip_inherited<PipelineLink>();
}

// A matrix costs as many products per token as it has numbers; tables, norms and biases cost almost nothing.
kinora_param PipelineLink::parameter(const kinora_param_spec& s) {
  if (s.block >= static_cast<int64_t>(cost_.size())) cost_.resize(static_cast<size_t>(s.block) + 1, 0);
  if (s.block >= 0 && s.ndim > 1 && s.role < KINORA_ROLE_TABLE)
    cost_[static_cast<size_t>(s.block)] +=
        static_cast<double>(std::accumulate(s.shape, s.shape + s.ndim, int64_t{1}, std::multiplies<>()));
  const kinora_param made = next.parameter(s);
  if (s.block < 0)
    outside_[made] = {s.role == KINORA_ROLE_COLUMN ? s.shape[0] / s.shards : s.shape[0], s.frozen != 0};
  return made;
}

void PipelineLink::declared() {
  const auto blocks = static_cast<int64_t>(cost_.size());
  if (blocks < pipe_.stages())
    throw Error(KINORA_ERROR_INVALID,
                "pp: the model has " + std::to_string(blocks) +
                    " blocks (embedding and head among them), which cannot be " +
                    std::to_string(pipe_.stages()) + " stages (" + std::to_string(pipe_.ranks) +
                    " ranks of " + std::to_string(pipe_.per_rank) + "); " + fewer_stages(pipe_, blocks));
  if (how_.blocks.empty()) {
    first_ = balanced(how_.by_cost ? cost_ : std::vector<double>(cost_.size(), 1), pipe_.stages());
  } else {
    const bool fits = static_cast<int64_t>(how_.blocks.size()) == pipe_.stages() &&
                      std::accumulate(how_.blocks.begin(), how_.blocks.end(), int64_t{0}) == blocks;
    if (!fits || *std::min_element(how_.blocks.begin(), how_.blocks.end()) < 1)
      throw Error(KINORA_ERROR_INVALID,
                  "pp: blocks = " + sum_of(how_.blocks) + " must be " + std::to_string(pipe_.stages()) +
                      " numbers above 0, one per stage, that sum to the model's " + std::to_string(blocks) +
                      " blocks (embedding and head among them)");
    int64_t first = 0;
    for (const int64_t n : how_.blocks) first_.push_back(std::exchange(first, first + n));
  }
  for (int64_t b = 0; b < blocks; ++b)
    if (!is_mine(stage_of(b))) skip_block(b);
}

int64_t PipelineLink::stage_of(int64_t block) const {
  if (block >= static_cast<int64_t>(cost_.size()))
    throw Error(KINORA_ERROR_UNSUPPORTED,
                "pp: block " + std::to_string(block) +
                    " has no parameters and comes after all that have; the last block must have some");
  return std::upper_bound(first_.begin(), first_.end(), block) - first_.begin() - 1;
}

int64_t PipelineLink::end_of(int64_t stage) const {
  return is_last(stage) ? static_cast<int64_t>(cost_.size()) - 1 : first_[static_cast<size_t>(stage) + 1] - 1;
}

void PipelineLink::begin(const kinora_pass& pass) {
  pass_ = pass;
  key_.clear();
  shared_.clear();
  n_sent_ = 0;
  sends_.clear();
}

void PipelineLink::reset() {
  kept_.clear();
  answers_.clear();
  messages_.settle();
}

bool PipelineLink::is_sent(const Tensor& x, kinora_param w, kinora_param b) const {
  const bool later = how_.sends_conditioning && !pass_.no_grad && pass_.stage > 0;
  if (!later || !outside_.count(w) || !at::GradMode::is_enabled()) return false;
  const auto bias = outside_.find(b);
  return x.requires_grad() || !outside_.at(w).frozen || (bias != outside_.end() && !bias->second.frozen);
}

Tensor PipelineLink::linear(const Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) {
  if (!is_sent(x, w, b)) return next.linear(x, w, b, seq);
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = outside_.at(w).rows;
  return at::full(shape, std::numeric_limits<double>::quiet_NaN(), x.options()).set_requires_grad(true);
}

// At this level x has the same shape on the other stages of this rank's position, so both sides of a boundary
// know each other's shapes.
Tensor PipelineLink::sequence(const Tensor& x, const kinora_seq_spec& spec, kinora_seq& seq) {
  key_.insert(key_.end(), {static_cast<int64_t>(x.scalar_type()), x.dim()});
  key_.insert(key_.end(), x.sizes().begin(), x.sizes().end());
  device_ = x.device();
  return next.sequence(x, spec, seq);
}

PipelineLink::Tensors PipelineLink::block(const kinora_block& b, const Tensors& in) {
  return pass_.no_grad ? run_all(b, in) : run_stage(b, in);
}

PipelineLink::Tensors PipelineLink::run_all(const kinora_block& b, const Tensors& in) {
  const int64_t stage = stage_of(b.index);
  Tensors out(b.n_out), given = in;
  if (is_mine(stage)) {
    if (b.index == first_[static_cast<size_t>(stage)] && stage > 0) {
      const Tensors flow = received_flow(stage);
      std::copy(flow.begin(), flow.end(), given.begin());
    }
    out = next.block(b, given);
    if (b.index == end_of(stage) && !is_last(stage)) {
      messages_.tell(out, stage, key_);
      for (size_t i = 0; i < out.size(); ++i)
        sends_.push_back(messages_.send(out[i], stage, 0, Direction::forward, static_cast<int64_t>(i)));
    }
  }
  if (b.index != end_of(pipe_.stages() - 1)) return out;
  out = messages_.broadcast(std::move(out), pipe_.ranks - 1, pipe_.stages() - 1, key_, device_);
  sends_.clear();
  return out;
}

PipelineLink::Tensors PipelineLink::run_stage(const kinora_block& b, const Tensors& in) {
  const int64_t stage = stage_of(b.index), now = pass_.stage;
  Tensors given = in;
  if (stage < now) return Tensors(b.n_out);
  if (how_.sends_conditioning) take_shared(b, given);
  if (stage == now) {
    if (b.index == first_[static_cast<size_t>(now)] && now > 0) {
      const Tensors flow = received_flow(now);
      std::copy(flow.begin(), flow.end(), given.begin());
    }
    const Tensors out = next.block(b, given);
    if (b.index != end_of(now) || is_last(now)) return out;
    messages_.tell(out, now, key_);
    for (size_t i = 0; i < out.size(); ++i) send_on(out[i], static_cast<int64_t>(i));
  }
  // Later blocks are called only to see which tensors they share.
  if (!how_.sends_conditioning || b.index == end_of(pipe_.stages() - 1)) throw Stop{};
  return Tensors(b.n_out);
}

// Both sides see the later blocks in the same order, so the n-th new tensor is the same on both.
void PipelineLink::take_shared(const kinora_block& b, Tensors& in) {
  const int64_t now = pass_.stage;
  for (size_t i = b.n_carry; i < in.size(); ++i) {
    if (!in[i].defined() || !in[i].requires_grad()) continue;
    const auto [found, fresh] = shared_.try_emplace(in[i].unsafeGetTensorImpl(), Shared{in[i], in[i]});
    Shared& tensor = found->second;
    if (fresh && now > 0)
      tensor.taken = received(in[i], now, kShared + static_cast<int64_t>(shared_.size()) - 1);
    in[i] = tensor.taken;
    if (stage_of(b.index) == now || std::exchange(tensor.sent, true)) continue;
    send_on(in[i], kShared + n_sent_++);
  }
}

PipelineLink::Tensors PipelineLink::received_flow(int64_t stage) {
  Tensors out;
  for (const auto& like : messages_.ask(stage - 1, key_, device_).made(device_))
    out.push_back(received(like, stage, static_cast<int64_t>(out.size())));
  return out;
}

// A leaf. Its gradient is sent back as soon as it is known, while the rest of the backward continues.
Tensor PipelineLink::received(const Tensor& like, int64_t stage, int64_t number) {
  const Tensor out =
      messages_.receive(like.detach(), stage - 1, pass_.microbatch, Direction::forward, number).finish();
  if (pass_.no_grad || !out.is_floating_point()) return out;
  out.set_requires_grad(true);
  Received one{out, number};
  out.register_hook(
      [this, stage, micro = pass_.microbatch, number, answered = one.answered](const Tensor& gradient) {
        *answered = true;
        answer(stage - 1, micro, number, gradient);
      });
  kept_[{stage, pass_.microbatch}].received.push_back(std::move(one));
  return out;
}

void PipelineLink::answer(int64_t boundary, int64_t micro, int64_t number, const Tensor& gradient) {
  answers_.push_back(messages_.send(gradient.detach(), boundary, micro, Direction::back, number));
}

void PipelineLink::send_on(const Tensor& x, int64_t number) {
  Kept& kept = kept_[{pass_.stage, pass_.microbatch}];
  kept.sends.push_back(messages_.send(x.detach(), pass_.stage, pass_.microbatch, Direction::forward, number));
  if (!x.is_floating_point()) return;
  kept.sent.push_back(x);
  kept.gradients.push_back(
      messages_.receive(x.detach(), pass_.stage, pass_.microbatch, Direction::back, number));
}

void PipelineLink::backward(const Step& step, int64_t stage, int64_t micro) {
  answers_.clear();  // of the previous backward: the receivers have already requested them
  Kept& kept = kept_[{stage, micro}];
  if (is_last(stage)) {
    step.backward(stage, micro);
  } else {
    Tensors outputs, gradients;
    for (size_t i = 0; i < kept.sent.size(); ++i) {
      Tensor gradient = kept.gradients[i].finish();
      if (!kept.sent[i].requires_grad()) continue;
      outputs.push_back(kept.sent[i]);
      gradients.push_back(std::move(gradient));
    }
    if (!outputs.empty()) kinora::backward<Tensor>(outputs, gradients);
  }
  for (const auto& r : kept.received)
    if (!*r.answered) answer(stage - 1, micro, r.number, at::zeros_like(r.tensor));
  kept_.erase({stage, micro});
}

}  // namespace kinora::pp
