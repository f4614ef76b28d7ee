// Applies a shot to the keys and values of the chunks before it.
#include <algorithm>

#include "plugins/jobs/inference/session_video.hpp"

namespace kinora::core::inference {

void Session::DenoisedVideo::begin_shot(int64_t chunk) {
  const Shot* shot = inputs_.shots().beginning_at(chunk);
  if (!shot || loop_->finished() == 0) return;
  if (shot->change != PromptSwitch::recache) loop_->read_finished(reader());
  if (shot->change == PromptSwitch::flush) {
    const int64_t sink = pipeline_.sink_frames();
    forget(sink * tokens_);
    loop_->read_chunks(std::max(chunk - 1, std::min(rule().chunks().of(sink), chunk)), chunk, reader());
  }
  inputs_.set_text(shot->prompt);
  if (shot->change == PromptSwitch::recache) read_again(chunk);
}

void Session::DenoisedVideo::forget(int64_t tokens) {
  const std::scoped_lock turn(pipeline_.turns());
  if (tokens > 0)
    pipeline_.cache().trim(kept_->number, tokens);
  else
    pipeline_.cache().reset(kept_->number);
  pinned_.clear();
}

// The sink, the first chunk of the last cut, and the window of the chunk that comes.
void Session::DenoisedVideo::read_again(int64_t chunk) {
  forget(0);
  const int64_t sink = std::min(pipeline_.sink_chunks(), chunk), window = pipeline_.window_chunks(),
                first = window > 0 ? std::clamp(chunk - window + 1, sink, chunk) : sink;
  loop_->read_chunks(0, sink, reader());
  for (const int64_t cut : inputs_.shots().pinned_at(chunk))
    if (cut >= sink && cut < first) loop_->read_chunks(cut, cut + 1, reader());
  loop_->read_chunks(first, chunk, reader());
}

void Session::DenoisedVideo::blend(int64_t chunk) {
  const int64_t begin = inputs_.shots().begin_of(chunk);
  const Shot* shot = inputs_.shots().beginning_at(begin);
  if (begin == 0 || loop_->finished() == 0 || shot->change != PromptSwitch::blend ||
      chunk - begin >= shot->blend)
    return;
  loop_->read_finished(reader());  // by the text that made them
  inputs_.blend_text(static_cast<double>(chunk - begin + 1) / static_cast<double>(shot->blend));
}

void Session::DenoisedVideo::pin_shot(int64_t chunk) {
  const auto wanted = inputs_.shots().pinned_at(chunk);
  if (wanted == pinned_ || tokens_ == 0) return;
  const std::scoped_lock turn(pipeline_.turns());
  const auto first = [&](int64_t cut) { return rule().chunks().begin(cut) * tokens_; };
  const int64_t tokens = rule().chunk * tokens_;  // of a cut, which is not the first chunk
  for (const int64_t cut : wanted)
    if (!pinned_.contains(cut)) pipeline_.cache().pin(kept_->number, first(cut), tokens);
  for (const int64_t cut : pinned_)
    if (!wanted.contains(cut)) pipeline_.cache().unpin(kept_->number, first(cut), tokens);
  pinned_ = wanted;
}

}  // namespace kinora::core::inference
