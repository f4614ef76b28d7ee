#include <algorithm>
#include <chrono>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include "core/runtime/call.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"
#include "plugins/jobs/inference/session_video.hpp"
#include "plugins/jobs/media/decode_thread.hpp"

namespace kinora::core::inference {
namespace {

// Adds its lifetime to `seconds`.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  double& seconds_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The frames with the last of these at their end.
at::Tensor ending_in(const at::Tensor& frames, const at::Tensor& latent) {
  const int64_t count = std::min(frames.size(2), latent.size(2));
  at::Tensor out = frames.clone();
  out.narrow(2, frames.size(2) - count, count).copy_(latent.narrow(2, latent.size(2) - count, count));
  return out;
}

// A CUDA stream for other work, which begins after all that this thread has enqueued. On the processor: none.
std::optional<c10::Stream> own_stream(at::Device device) {
  if (!device.is_cuda()) return std::nullopt;
  const c10::impl::VirtualGuardImpl cuda(device.type());
  const c10::Stream out = cuda.getStreamFromGlobalPool(device);
  c10::Event enqueued(device.type());
  enqueued.record(cuda.getStream(device));
  enqueued.block(out);
  return out;
}

}  // namespace

Session::DenoisedVideo::DenoisedVideo(Session& session)
    : Video(session), sampler_(pipeline_.open_sampler(request_)) {
  inputs_.set_image();
  inputs_.set_signals();
  auto given = inputs_.given_frames();
  inputs_.set_channels(given);
  auto [noise, first] = inputs_.beginning(*sampler_);
  first_ = first;
  steps_ = static_cast<int64_t>(sampler_->levels().size()) - 1;
  begin(noise, std::move(given));
  if (loop_->chunks_left() > 1) open_stream();
  // A video that begins with given frames begins in the shot in which they end.
  if (session_.replayed_.defined() || !has_shots() || loop_->next_chunk() == 0) return;
  const ShotList& shots = inputs_.shots();
  session_.control_.begin_with(shots.beginning_at(shots.begin_of(loop_->next_chunk()))->prompt);
}

Session::DenoisedVideo::~DenoisedVideo() {
  const std::scoped_lock turn(pipeline_.coding_turns());
  stream_.reset();
}

void Session::DenoisedVideo::begin(const NoiseOf& noise, std::optional<FrameCondition> given) {
  const std::scoped_lock turn(pipeline_.turns());
  RolloutPlan plan = rollout_plan(rule(), pipeline_.loss(), request_.condition_sigma, inputs_.frames());
  plan.keeps = pipeline_.keeps();
  plan.stored = pipeline_.parallel().parameter_dtype();
  if (plan.keeps) kept_.emplace(pipeline_);
  loop_.emplace(plan, noise, std::move(given));
}

void Session::DenoisedVideo::open_stream() {
  const std::scoped_lock turn(pipeline_.coding_turns());
  cuda_ = own_stream(pipeline_.device());
  const c10::OptionalStreamGuard on(cuda_);
  stream_ = pipeline_.tokenizer().open_stream(true, &session_.run_);
}

std::optional<at::Tensor> Session::DenoisedVideo::next() {
  if (loop_->done()) return std::nullopt;
  do sample_chunk();
  while (!stream_ && !loop_->done());
  return decode_new();
}

void Session::DenoisedVideo::sample_chunk() {
  const Stopwatch seconds(session_.made_.denoise_seconds);
  const auto begins = session_.control_.begin_chunk(loop_->chunks_left(), steps_);
  const Watch& watch = session_.watch_;
  const int64_t chunk = session_.state().chunk, before = loop_->finished();
  const at::Tensor known = watch.known ? watch.known(chunk) : at::Tensor();
  add_chunk(begins, [&](const Rollout::Piece& piece) {
    return known.defined() ? ending_in(piece.noise, known) : sampled(piece);
  });
  session_.control_.end_chunk();
  if (watch.finished && !known.defined()) watch.finished(chunk, loop_->latent(before));
  if (loop_->done() && kept_) free_cache();
  if (loop_->done() && session_.watch_.batched) session_.watch_.batched->leave();
}

void Session::DenoisedVideo::add_chunk(const std::optional<Shot>& begins, const Rollout::Sample& sample) {
  const int64_t chunk = loop_->next_chunk();
  const bool is_first = loop_->finished() == 0;
  if (begins && kept_ && !is_first) inputs_.add_shot(chunk, *begins);
  if (begins && (!kept_ || is_first)) inputs_.set_text(begins->prompt);
  if (has_shots()) begin_shot(chunk);
  if (has_shots()) blend(chunk);
  const auto pinned = [&](const Rollout::Piece& piece) {
    if (has_shots()) pin_shot(rule().chunks().of(piece.first));
    return sample(piece);
  };
  loop_->next(pinned, reader());
}

void Session::DenoisedVideo::begin_again() {
  loop_->rewind(0);
  inputs_.begin_again();
  decoded_ = tokens_ = 0;
  if (kept_) forget(0);
  if (stream_) open_stream();
}

// Keys and values depend on what the model saw when it read a chunk, so that all chunks are read again, in the order
// of then and by the prompts of then. Steps that made a chunk stored nothing.
int64_t Session::DenoisedVideo::replay(const at::Tensor& latent, int64_t chunks) {
  begin_again();
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    session_.stop_at_border();
    add_chunk(session_.control_.shot_of(chunk),
              [&](const Rollout::Piece& piece) { return latent.narrow(2, piece.first, piece.frames()); });
  }
  if (loop_->done()) note_made();
  if (loop_->done() && kept_) free_cache();
  int64_t frames = 0;  // the decoder reads them again, and no one their pixels
  if (stream_ && chunks > 0) decode_each(take_new(), [&](const at::Tensor& one) { frames += one.size(0); });
  return frames;
}

// The decoder needs its memory.
void Session::DenoisedVideo::free_cache() {
  const std::scoped_lock turn(pipeline_.turns());
  kept_->free(session_.made_);
}

at::Tensor Session::DenoisedVideo::estimate(GuidedConditions& video, const at::Tensor& x,
                                            const at::Tensor& sigma, const FrameCondition* before) {
  const std::scoped_lock turn(pipeline_.turns());
  session_.stop_if_alone();
  pipeline_.use_lora(request_.lora);
  const Mixed in = remixed({x, sigma}, sampler_->mix(), pipeline_.loss().mix());
  const auto ask = [&](const at::Tensor& a, const at::Tensor& b) { return pipeline_.guided()(video, a, b); };
  return before ? (*before)(in.x, in.sigma, ask) : ask(in.x, in.sigma);
}

GuidedConditions Session::DenoisedVideo::prepared(const Rollout::Piece& piece) {
  const std::scoped_lock turn(pipeline_.turns());
  GuidedConditions out = pipeline_.guided().prepared(of_piece(inputs_.with(), piece),
                                                     of_piece(inputs_.none(), piece), request_.guidance);
  out.batched = session_.watch_.batched;
  if (!rule().teacher_forcing) return out;
  out.place = {kept_ ? kept_->number : 0,
               inputs_.shots().at(generating_rule(rule()), piece.first, piece.frames())};
  return out;
}

void Session::DenoisedVideo::read(int64_t first, const FrameCondition& finished) {
  if (!inputs_.shots().empty()) pin_shot(rule().chunks().of(first));
  GuidedConditions video = prepared({first, finished.clean(), &finished});
  const std::scoped_lock turn(pipeline_.turns());
  session_.stop_if_alone();
  pipeline_.use_lora(request_.lora);
  pipeline_.guided().read(video, finished.clean(), finished.levels(1));
  session_.made_.model_calls += video.calls;
  if (tokens_ > 0) return;
  for (const uint32_t branch : {0U, 1U})
    tokens_ = std::max(tokens_, pipeline_.cache().tokens(kept_->number, branch) / finished.frames());
}

at::Tensor Session::DenoisedVideo::sampled(const Rollout::Piece& piece) {
  GuidedConditions video = prepared(piece);
  // In the place of earlier chunks, which are given.
  const at::Tensor earlier = piece.noise.narrow(2, 0, piece.before);
  int64_t number = 0;
  FunctionDenoiser denoiser([&](const at::Tensor& x, const at::Tensor& sigma) {
    const at::Tensor x0 = estimate(video, at::cat({earlier, x}, 2), sigma, piece.given)
                              .narrow(2, piece.before, x.size(2))
                              .contiguous();
    require_finite(x0,
                   fmt::format("{}: the latent of video {:03} in denoiser call {}", pipeline_.model_spec().id,
                               request_.number, ++number),
                   pipeline_.spec().parts.at("model").weights);
    return x0;
  });
  kinora_denoiser abi = denoiser.abi();
  abi.first = first_;
  struct OfVideo : Call {
    DenoisedVideo* self = nullptr;
  } call;
  call.seed = request_.seed;
  call.first_sample = request_.number;
  call.chunk = rule().teacher_forcing ? loop_->next_chunk() : 0;
  call.self = this;
  kinora_run run = run_of(call);
  run.progress = [](void* self, int64_t done, int64_t, kinora_tensor x0) -> int32_t {
    auto& v = *static_cast<OfVideo*>(static_cast<Call*>(self))->self;
    return guard([&] {
      v.session_.note_step(done);
      v.session_.stop_at_border();
      if (x0) v.look(done, borrow<at::Tensor>(x0));
    });
  };
  run.cancelled = [](void* self) -> int32_t {
    const auto& session = static_cast<OfVideo*>(static_cast<Call*>(self))->self->session_;
    return guard([&] { session.stop_if_alone(); });
  };
  const at::Tensor noise = piece.noise.narrow(2, piece.before, piece.frames() - piece.before).contiguous();
  const at::Tensor latent = at::cat({earlier, sampler_->sample(abi, noise, run)}, 2);
  session_.made_.nfe += denoiser.calls();
  session_.made_.model_calls += video.calls;
  session_.made_.steps += steps_ - first_;
  return latent;
}

void Session::DenoisedVideo::look(int64_t step, const at::Tensor& x0) {
  const Watch& watch = session_.watch_;
  if (!watch.preview || watch.preview_every == 0 || step % watch.preview_every != 0) return;
  const at::Tensor frame = pipeline_.scale().denormalise(x0.narrow(2, 0, 1).to(at::kFloat));
  watch.preview(step, session_.decoded(frame));
}

// Frame by frame, so that nothing else is as large as a long video's latent.
at::Tensor Session::DenoisedVideo::denormalised(int64_t first) const {
  const at::Tensor latent = loop_->latent(first);
  at::Tensor out = at::empty(latent.sizes(), latent.options().dtype(at::kFloat));
  for (int64_t i = 0; i < latent.size(2); ++i)
    out.narrow(2, i, 1).copy_(pipeline_.scale().denormalise(latent.narrow(2, i, 1).to(at::kFloat)));
  return out;
}

void Session::DenoisedVideo::note_made() {
  session_.made_.latent = denormalised(0);
  if (!request_.shots.empty()) session_.made_.shots = inputs_.shots().described();
}

at::Tensor Session::DenoisedVideo::take_new() {
  if (loop_->done()) note_made();
  return denormalised(std::exchange(decoded_, loop_->finished()));
}

at::Tensor Session::DenoisedVideo::decode_new() {
  if (stream_) return decode(take_new());
  note_made();
  const Stopwatch watch(session_.made_.decode_seconds);
  return session_.decoded(session_.made_.latent);
}

void Session::DenoisedVideo::decode_each(const at::Tensor& latent, const Take& take,
                                         const std::function<bool()>& is_stopped) {
  if (pipeline_.parallel().of_sample().rank != 0) return;
  const Stopwatch watch(session_.made_.decode_seconds);
  const c10::OptionalStreamGuard on(cuda_);
  for (int64_t i = 0; i < latent.size(2); ++i) {
    const std::scoped_lock turn(pipeline_.coding_turns());
    session_.stop_if_alone();
    if (is_stopped && is_stopped()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
    take(pipeline_.decode_next(*stream_, latent.narrow(2, i, 1), session_.run_));
  }
}

at::Tensor Session::DenoisedVideo::decode(const at::Tensor& latent, const std::function<bool()>& is_stopped) {
  std::vector<at::Tensor> frames;
  decode_each(
      latent, [&](const at::Tensor& one) { frames.push_back(one); }, is_stopped);
  const c10::OptionalStreamGuard on(cuda_);
  return frames.empty() ? at::Tensor() : at::cat(frames);
}

void Session::DenoisedVideo::make_rest(const Take& take) {
  DecodeThread<at::Tensor> thread([&](const at::Tensor& latent) {
    const at::NoGradGuard off;
    at::init_num_threads();
    take(decode(latent, [&] { return thread.is_cancelled(); }));
  });
  try {
    while (!loop_->done()) {
      session_.stop_at_border();
      sample_chunk();
      thread.push(take_new());
    }
    thread.finish();
  } catch (...) {
    session_.control_.fail(false);  // now, since the thread may wait in take() for this
    throw;
  }
}

}  // namespace kinora::core::inference
