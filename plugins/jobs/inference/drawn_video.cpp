#include <ATen/ATen.h>

#include "plugins/jobs/inference/session_video.hpp"

namespace kinora::core::inference {

Session::DrawnVideo::DrawnVideo(Session& session) : Video(session) {
  const auto& shape = inputs_.shape();
  const std::scoped_lock turn(pipeline_.turns());
  kept_.emplace(pipeline_);
  codes_ =
      std::make_unique<NextToken>(pipeline_.model(), pipeline_.model_spec(), pipeline_.cache(), kept_->number,
                                  std::array{shape[1], shape[2], shape[3]}, pipeline_.tokenizer_info().codes,
                                  request_.tokens, request_.guidance[0], pipeline_.spec().seed);
}

std::optional<at::Tensor> Session::DrawnVideo::next() {
  Made& made = session_.made_;
  if (made.latent.defined()) return std::nullopt;
  if (const auto begins = session_.control_.begin_chunk(1, codes_->tokens()))
    inputs_.set_text(begins->prompt);
  inputs_.set_signals();
  const at::Tensor given = inputs_.begins_with();
  codes_->begin(inputs_.with(), inputs_.none(), given, request_.seed, request_.number);
  while (!codes_->done()) {
    session_.stop_at_border();
    int64_t done = 0;
    {
      const std::scoped_lock turn(pipeline_.turns());
      session_.stop_if_alone();
      pipeline_.use_lora(request_.lora);
      done = codes_->step();
    }
    session_.note_step(done);
  }
  session_.control_.end_chunk();
  made.latent = codes_->codes();
  made.nfe = made.steps = made.latent.numel() - (given.defined() ? given.numel() : 0);
  made.model_calls = codes_->calls();
  {
    const std::scoped_lock turn(pipeline_.turns());
    kept_->free(made);  // the tokenizer needs the memory
  }
  return session_.decoded(made.latent);
}

}  // namespace kinora::core::inference
