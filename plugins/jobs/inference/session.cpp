#include "plugins/jobs/inference/session.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "core/base/cancel.hpp"
#include "core/base/log.hpp"
#include "core/torch/ranks/meeting.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/inference/session_video.hpp"

namespace kinora::core::inference {

KeptVideo::~KeptVideo() {
  const std::scoped_lock turn(pipeline_.turns());
  try {
    pipeline_.cache().reset(number);
  } catch (const Error& e) {
    log_warn("{}", e.what());
  }
}

void KeptVideo::free(Session::Made& made) {
  CacheInstance& cache = pipeline_.cache();
  made.cache_bytes = cache.bytes(number);
  made.cache_tokens = std::max(cache.tokens(number, 0), cache.tokens(number, 1));
  cache.trim(number, 0);  // leaves the text's
  made.text_bytes = cache.bytes(number);
  cache.reset(number);
}

Session::Session(Pipeline& pipeline, Request request, Watch watch)
    : pipeline_(pipeline),
      request_(std::move(request)),
      watch_(std::move(watch)),
      control_(pipeline.spec().name, request_.number, request_.prompt) {
  run_.struct_size = sizeof run_;
  run_.self = this;
  run_.progress = [](void* self, int64_t, int64_t, kinora_tensor) {
    return guard([&] { static_cast<Session*>(self)->pass_turn(); });
  };
  run_.cancelled = [](void* self) {
    return guard([&] { static_cast<const Session*>(self)->stop_if_alone(); });
  };
  pipeline_.enter();
}

Session::~Session() {
  video_.reset();
  pipeline_.leave();
}

bool Session::is_asked_to_stop() const { return control_.is_cancelled() || cancelled(); }

void Session::stop_at_border() const {
  const at::Tensor asked = at::full({1}, is_asked_to_stop() ? 1.0 : 0.0, at::kDouble);
  if (transferred(pipeline_.together(), KINORA_OP_ALL_REDUCE, asked).item<double>() > 0)
    throw Error(KINORA_ERROR_CANCELLED, "cancelled");
}

void Session::stop_if_alone() const {
  if (pipeline_.together().size == 1 && is_asked_to_stop()) throw Error(KINORA_ERROR_CANCELLED, "cancelled");
}

void Session::pass_turn() {
  stop_if_alone();
  pipeline_.coding_turns().unlock();
  pipeline_.coding_turns().lock();
}

void Session::while_alive(const std::function<void()>& work) {
  const at::NoGradGuard off;
  at::init_num_threads();  // of this thread: as many as the others have
  try {
    stop_at_border();
    open_video();
    work();
  } catch (const Error& e) {
    end_by_error(e.code() == KINORA_ERROR_CANCELLED);
    throw;
  } catch (...) {
    end_by_error(false);
    throw;
  }
}

std::optional<at::Tensor> Session::next_chunk() {
  if (is_over_) return std::nullopt;
  std::optional<at::Tensor> frames;
  while_alive([&] {
    frames = video_->next();
    is_over_ = !frames;
    chunks_given_ = control_.state().chunk;
    if (frames) frames = cut(*frames);
  });
  return frames;
}

void Session::make_rest(const Take& take) {
  if (is_over_) return;
  while_alive([&] {
    if (!video_->gives_chunks()) return;
    video_->make_rest([&](const at::Tensor& frames) {
      take(cut(frames));
      ++chunks_given_;
    });
    is_over_ = true;
  });
  while (const auto frames = next_chunk()) take(*frames);
}

void Session::open_video() {
  if (!video_ && pipeline_.makes_codes()) video_ = std::make_unique<DrawnVideo>(*this);
  if (!video_) video_ = std::make_unique<DenoisedVideo>(*this);
  if (!replayed_.defined()) return;
  given_ = video_->replay(replayed_, control_.state().chunk);
  replayed_.reset();
}

void Session::require_chunks(const char* what) const {
  if (pipeline_.makes_codes() || !pipeline_.spec().rule.teacher_forcing)
    raise(
        KINORA_ERROR_UNSUPPORTED,
        "{}: this pipeline makes its video at once, so it cannot {}; that is for models with teacher_forcing",
        pipeline_.spec().name, what);
}

at::Tensor Session::finished() const {
  if (replayed_.defined() || control_.state().chunk == 0) return replayed_;
  return video_->finished();
}

void Session::rewind(int64_t chunk) {
  require_chunks("be rewound");
  const at::Tensor before = finished();
  control_.rewind(chunk);
  replayed_ = before;
  chunks_given_ = chunk;
  made_.latent.reset();
  is_over_ = false;
}

std::unique_ptr<Session> Session::branch(Watch watch) {
  require_chunks("have a branch");
  auto out = std::make_unique<Session>(pipeline_, request_, std::move(watch));
  // A chunk whose frames were not given, since their decoding was cancelled or has failed, is made again.
  const int64_t made = control_.state().chunk, ahead = made - chunks_given_;
  out->chunks_given_ = made - (gives_chunks() ? ahead : std::min<int64_t>(ahead, 1));
  out->replayed_ = finished();
  out->control_.continue_from(control_, out->chunks_given_);
  return out;
}

at::Tensor Session::cut(const at::Tensor& frames) {
  if (!frames.defined()) return frames;
  const int64_t wanted = wanted_frames(), before = given_;
  given_ += frames.size(0);
  return wanted == 0 || given_ <= wanted ? frames : frames.narrow(0, 0, wanted - before);
}

bool Session::gives_chunks() const { return video_ && video_->gives_chunks(); }

int64_t Session::frames() const {
  const int64_t made = video_ ? video_->frames() : 0, wanted = wanted_frames();
  return wanted == 0 ? made : std::min(made, wanted);
}

void Session::end_by_error(bool was_cancelled) {
  is_over_ = true;
  control_.fail(was_cancelled);
}

void Session::set_prompt(std::string prompt) {
  if (!pipeline_.reads_text())
    raise(KINORA_ERROR_INVALID, "{}: this pipeline reads no text, so it takes no prompt",
          pipeline_.spec().name);
  control_.set_prompt(std::move(prompt));
}

void Session::set_shot(Shot shot) {
  if (!pipeline_.reads_text() || !pipeline_.keeps())
    raise(
        KINORA_ERROR_INVALID,
        "{}: this pipeline keeps no keys and values of a text, so a prompt neither cuts nor switches; leave "
        "out cut and switch",
        pipeline_.spec().name);
  control_.set_shot(std::move(shot));
}

void Session::note_step(int64_t done) {
  control_.note_step(done);
  if (watch_.step) watch_.step(done);
}

at::Tensor Session::decoded(const at::Tensor& latent) {
  const std::scoped_lock turn(pipeline_.coding_turns());
  return decode_together(pipeline_.tokenizer(), latent, pipeline_.device(), pipeline_.parallel().of_sample(),
                         &run_);
}

}  // namespace kinora::core::inference
