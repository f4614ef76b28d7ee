#include "plugins/jobs/inference/request_inputs.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "core/torch/media/streaming.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/inference/requests.hpp"
#include "plugins/jobs/inference/rules.hpp"

namespace kinora::core::inference {

// Without a cache the earlier chunks are computed again in each step, by the prompt of now.
ShotList shots_in(Pipeline& pipeline, const Request& request) {
  const auto& spec = pipeline.spec();
  auto shots = shots_of(request.shots);
  const bool is_one = std::ranges::all_of(shots, [&](const Shot& s) { return s.prompt == shots[0].prompt; });
  if (!shots.empty() && (!spec.rule.teacher_forcing || (!pipeline.keeps() && !is_one)))
    raise(
        KINORA_ERROR_UNSUPPORTED,
        "{}: shots are for a model that makes its video chunk by chunk on a cache: one with teacher_forcing, "
        "one expert, and strategies that leave sequences whole, such as cp-ulysses",
        spec.name);
  const double fps = shots.empty() ? 0 : pipeline.fps(request);
  return {std::move(shots), spec.shots, fps, spec.rule.chunks(), pipeline.tokenizer_info().time};
}

RequestInputs::RequestInputs(Pipeline& pipeline, const Request& request, const kinora_run& run)
    : pipeline_(pipeline),
      request_(request),
      run_(run),
      shots_(shots_in(pipeline, request)),
      shape_(pipeline.shape_of(request)),
      // A number of frames cuts the end of shots.
      frames_(shots_.empty()       ? shape_[1]
              : request.frames > 0 ? std::min(shape_[1], shots_.frames())
                                   : shots_.frames()) {
  if (!shots_.empty() && request.frames > pixel_frames())
    raise(KINORA_ERROR_INVALID, "{} frames are more than the {} frames of the shots; make them longer",
          request.frames, pixel_frames());
}

void RequestInputs::set_text(const std::string& prompt) {
  if (!pipeline_.reads_text()) return;
  const auto encode = [&](const std::string& text, const char* what) {
    const std::scoped_lock turn(pipeline_.turns());
    return pipeline_.text()(text, fmt::format("{} of video {:03}", what, request_.number)).unsqueeze(0);
  };
  const at::Tensor text = encode(prompt, "the prompt");
  const at::Tensor negative = request_.negative.empty() && !pipeline_.spec().encodes_empty_negative
                                  ? at::zeros_like(text)
                                  : encode(request_.negative, "the negative prompt");
  for (const auto& [to, tokens] : {std::pair{&with_, text}, std::pair{&none_, negative}}) {
    (*to)["text"] = tokens;
    if (pipeline_.takes("text_mask")) (*to)["text_mask"] = at::ones({1, tokens.size(1)}, at::kBool);
  }
  text_before_ = text_.defined() ? text_ : text;
  text_ = text;
}

void RequestInputs::begin_again() {
  text_ = text_before_ = at::Tensor();
  shots_ = shots_in(pipeline_, request_);
}

// The shorter text ends in zeros, as a text that is absent.
void RequestInputs::blend_text(double share) {
  if (!text_.defined()) return;
  const int64_t length = std::max(text_.size(1), text_before_.size(1));
  const auto padded = [&](const at::Tensor& t) {
    return at::constant_pad_nd(t, {0, 0, 0, length - t.size(1)});
  };
  with_["text"] = share >= 1 ? text_ : at::lerp(padded(text_before_), padded(text_), share);
  if (pipeline_.takes("text_mask")) with_["text_mask"] = at::ones({1, with_["text"].size(1)}, at::kBool);
}

void RequestInputs::set_image() {
  if (!pipeline_.reads_pictures() || (request_.image.empty() && request_.video.empty())) return;
  const auto tokens = [&](const at::Tensor& frames) {
    const std::scoped_lock turn(pipeline_.turns());
    return pipeline_.image()(frames[0]).unsqueeze(0);
  };
  auto& files = pipeline_.files();
  at::Tensor image =
      tokens(request_.image.empty() ? first_frame_of_video() : files.picture(request_.image, frame_size()));
  if (!request_.last_image.empty())
    image = at::cat({image, tokens(files.picture(request_.last_image, frame_size()))}, 1);
  with_["image"] = none_["image"] = image;
}

void RequestInputs::set_signals() {
  for (const auto& [name, values] : request_.signals) {
    require_signal(pipeline_.model_spec(), pipeline_.spec().use("model").options, name);
    const at::Tensor value = at::tensor(values, at::kFloat);
    with_[name] = none_[name] = values.size() == 1 ? value : value.unsqueeze(0);
  }
}

ConditionInput RequestInputs::condition_input() const {
  const int64_t channels = shape_[0];
  const json& options = pipeline_.spec().use("model").options.values();
  return condition_input_of(pipeline_.model_spec(), options.value("in_channels", channels), channels,
                            pipeline_.tokenizer_info().time + channels);
}

// A model with a mask among its channels always receives it, even if no frame is given.
void RequestInputs::set_channels(const std::optional<FrameCondition>& given) {
  if (condition_input() == ConditionInput::mask)
    with_["condition_mask"] = none_["condition_mask"] =
        given ? given->mask(frames_) : at::zeros({1, 1, frames_, shape_[2], shape_[3]});
  if (condition_input() != ConditionInput::channels) return;
  if (request_.image.empty())
    throw Error(KINORA_ERROR_INVALID, pipeline_.model_spec().id + " makes videos from a picture; set image");
  with_["condition"] = none_["condition"] = channels_of_image();
}

at::Tensor RequestInputs::channels_of_image() {
  const auto picture = [&](const std::filesystem::path& file) {
    return video_of(pipeline_.files().picture(file, frame_size()), 0, 1).to(pipeline_.device());
  };
  FramesOf video = followed_by_grey(picture(request_.image));
  const bool ends = !request_.last_image.empty();
  if (ends) video = ended_by(video, pixel_frames(), picture(request_.last_image));
  const at::Tensor latent = encoded_latent(pixel_frames(), video);
  return masked_picture(pipeline_.scale().normalise(latent.to(at::kFloat)), pipeline_.tokenizer_info().time,
                        ends);
}

at::Tensor RequestInputs::encoded_latent(int64_t frames, const FramesOf& video) {
  const std::scoped_lock turn(pipeline_.coding_turns());
  return encode_video(pipeline_.tokenizer(), frames, video, &run_);
}

at::Tensor RequestInputs::encoded(const at::Tensor& pixels) {
  const at::Tensor latent = encoded_latent(pixels.size(0), [&](int64_t first, int64_t n) {
    return video_of(pixels, first, n).to(pipeline_.device());
  });
  return pipeline_.makes_codes() ? latent.to(at::kLong) : pipeline_.scale().normalise(latent.to(at::kFloat));
}

at::Tensor RequestInputs::continued() {
  return pipeline_.files().continued(request_.video, request_.condition_frames, request_.condition_from_end,
                                     pixel_frames(), pipeline_.tokenizer_info().time, frame_size());
}

// The frame that the result begins with, or is to resemble.
at::Tensor RequestInputs::first_frame_of_video() {
  const at::Tensor begins = request_.strength == 1 ? continued() : at::Tensor();
  return begins.defined() ? begins : pipeline_.files().video(request_.video, 0, 1, frame_size());
}

at::Tensor RequestInputs::begins_with() {
  if (!request_.image.empty()) return encoded(pipeline_.files().picture(request_.image, frame_size()));
  if (request_.video.empty() || request_.strength != 1) return {};
  const at::Tensor frames = continued();
  return frames.defined() ? encoded(frames) : at::Tensor();
}

std::optional<FrameCondition> RequestInputs::given_frames() {
  if (!request_.image.empty() && condition_input() == ConditionInput::channels) return std::nullopt;
  const at::Tensor given = begins_with();
  if (!given.defined()) return std::nullopt;
  const std::scoped_lock turn(pipeline_.turns());
  return FrameCondition(given, pipeline_.loss().mix(), request_.condition_sigma);
}

// A video that is made at once draws all noise at once; a chunk has noise of its own frames.
NoiseOf RequestInputs::drawn() const {
  const auto& s = shape_;
  if (!request_.noise.empty())
    return noise_of(given_noise(request_.noise, request_.number, {s[0], frames_, s[2], s[3]}));
  if (pipeline_.spec().rule.teacher_forcing)
    return noise_by_frames({s[0], s[2], s[3]}, request_.seed, request_.number);
  return noise_of(sample_noise(at::empty({1, s[0], s[1], s[2], s[3]}, at::kDouble), request_.seed,
                               request_.number, "generate.noise"));
}

// The request's video. Its last frame stands for those behind the wanted ones, which are cut off in the end.
at::Tensor RequestInputs::whole_video() {
  const int64_t all = pixel_frames(), wanted = pipeline_.wanted_frames(request_);
  const int64_t given = wanted > 0 ? std::min(all, wanted) : all;
  const at::Tensor frames = pipeline_.files().video(request_.video, 0, given, frame_size());
  return given == all ? frames
                      : at::cat({frames, frames.narrow(0, given - 1, 1).expand({all - given, -1, -1, -1})});
}

std::pair<NoiseOf, int64_t> RequestInputs::beginning(const SamplerInstance& sampler) {
  const NoiseOf noise = drawn();
  if (request_.video.empty() || request_.strength == 1) return {noise, 0};
  const auto levels = sampler.levels();
  const auto steps = static_cast<double>(levels.size() - 1);
  const auto first = std::clamp<int64_t>(std::llround((1 - request_.strength) * steps), 1,
                                         static_cast<int64_t>(levels.size()) - 2);
  const double level = levels.at(static_cast<size_t>(first));
  const at::Tensor clean = encoded(whole_video()).to(at::kDouble);
  const double keep = sampler.mix() == KINORA_MIX_RECTIFIED_FLOW ? 1 - level : 1;
  return {[noise, clean, keep, level](int64_t first, int64_t count) {
            return keep * clean.narrow(2, first, count) + level * noise(first, count);
          },
          first};
}

}  // namespace kinora::core::inference
