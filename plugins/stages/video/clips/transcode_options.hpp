// Options of stages that cut clips.
#pragma once
#include <algorithm>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "clips/clip_plan.hpp"
#include "clips/transcode.hpp"
#include "kinora/stage.hpp"
#include "media/decoding.hpp"
#include "media/encoder.hpp"
#include "media/sample_media.hpp"

namespace kinora::video {

struct ClipOptions {
  double min_length = 2.0, max_length = 60, stride = 0, edge_crop = 0.5, sample_fps = 0;
  int64_t min_frames = 48, crf = 20, max_height = 0, threads = 1, parallel = 0, memory = int64_t{256} << 20;
  int64_t sample_height = 0;
  std::string long_shots = "stride", preset = "veryfast", encoder = "libx264", decoder = "cpu", copy = "off",
              bins = "record";
  bool audio = true, crop = false;
};

// Which parts of a video become clips.
template <class Options>
void describe_clip_parts(Describe<Options>& d) {
  using O = ClipOptions;
  d.option("min_length", &O::min_length)
      .at_least(0)
      .unit("s")
      .help("shortest clip; shorter ones are filtered by rule clip.too-short");
  d.option("min_frames", &O::min_frames)
      .at_least(1)
      .unit("frames")
      .help("fewest frames of a clip; clips with fewer are filtered by rule clip.too-few-frames");
  d.option("max_length", &O::max_length)
      .above(0)
      .unit("s")
      .help("longest clip; longer shots are cut as long_shots says");
  d.option("long_shots", &O::long_shots)
      .choices({"equal", "stride", "truncate"})
      .help(
          "division of longer shots: into equal parts, into a clip of max_length every stride, or to the "
          "first max_length only");
  d.option("stride", &O::stride)
      .at_least(0)
      .unit("s")
      .help("time from start to start of long_shots = stride; below max_length clips overlap; 0: max_length");
  d.option("edge_crop", &O::edge_crop).at_least(0).unit("s").help("time removed at both ends of every shot");
  d.option("crop", &O::crop)
      .help("keep only the part of the picture given by the fact crop, which filter.letterbox writes");
  d.option("bins", &O::bins)
      .choices({"record", "drop"})
      .help(
          "use of the fact bin (resolution, aspect, duration); drop: clips without one are filtered by "
          "rule clip.no-bin");
}

template <class Options>
void describe_clip_options(Describe<Options>& d) {
  using O = ClipOptions;
  d.output("frames", "[T, H, W, 3]", "uint8", "sampled frames; fact frames_at has their seconds",
           {.when = "sample_fps", .per = "clip"});
  describe_clip_parts(d);
  d.option("crf", &O::crf).range(0, 51).help("H.264 quality, lower is better");
  d.option("preset", &O::preset).choices(preset_names()).help("x264's speed preset");
  d.option("encoder", &O::encoder)
      .choices({"libx264", "libopenh264", "h264_nvenc", "auto"})
      .help(
          "video encoder; libopenh264: for an FFmpeg under the LGPL; auto: NVIDIA's if available, else the "
          "one "
          "of the other two that FFmpeg has");
  describe_decoder(d, &O::decoder);
  d.option("max_height", &O::max_height)
      .range(0, 16384)
      .unit("pixels")
      .help("largest height; taller videos are scaled down; 0: unchanged");
  d.option("audio", &O::audio).help("keep the sound");
  d.option("copy", &O::copy)
      .choices({"off", "auto"})
      .help("auto: copies whole groups of pictures of an H.264 video where nothing about them changes");
  d.option("sample_fps", &O::sample_fps)
      .at_least(0)
      .help("frames per second in the tensor frames of each clip; 0: none");
  d.option("sample_height", &O::sample_height)
      .range(0, 16384)
      .unit("pixels")
      .help("height of these frames; 0: unchanged");
  d.option("threads", &O::threads)
      .range(1, 64)
      .help("number of threads of the decoder and of each encoder; the clips' bytes depend on it");
  d.option("parallel", &O::parallel)
      .range(0, 256)
      .help("number of clips of a video encoded at once; 0: one per core, at most 8");
  d.option("memory", &O::memory)
      .bytes()
      .at_least(1 << 20)
      .help("memory for decoded frames that wait, and for sampled frames of a clip");
}

// Checks the options; Error(KINORA_ERROR_INVALID) for lengths that no clip can have.
inline const ClipOptions& checked(const ClipOptions& o) {
  if (o.min_length > o.max_length)
    throw Error(
        KINORA_ERROR_INVALID,
        fmt::format("min_length = {} is above max_length = {}, so every clip would be filtered as too short; "
                    "lower min_length or raise max_length",
                    o.min_length, o.max_length));
  return o;
}

inline int64_t parallel_clips(const ClipOptions& o) {
  constexpr int64_t kMost = 8;
  return o.parallel > 0 ? o.parallel : std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, kMost);
}

// A video rarely has as many clips in progress as it may encode at once, so it requests half the cores that
// these would need; two videos can then share the cores that one would leave idle.
constexpr int64_t kClipsACore = 2;

// nvenc: the card encodes the clips, so the cores are only for the decoder.
inline kinora_resources clip_resources(const ClipOptions& o, bool nvenc) {
  kinora_resources out = reads_media(o.threads, o.decoder);
  if (!nvenc)
    out.cores = static_cast<double>(std::max<int64_t>(1, parallel_clips(o) * o.threads / kClipsACore));
  out.nvenc = nvenc ? 1 : 0;
  out.memory = static_cast<uint64_t>(o.memory);
  return out;
}

inline bool uses_nvenc(const std::string& encoder) {
  return encoder == "h264_nvenc" || (encoder == "auto" && nvenc_opens());
}

// For Stage::start: Error(KINORA_ERROR_UNSUPPORTED) if a card is required that does not encode or decode here.
inline void check_coders(const ClipOptions& o) {
  check_decoder(o.decoder);
  if (o.encoder == "h264_nvenc" && !nvenc_opens())
    throw Error(KINORA_ERROR_UNSUPPORTED,
                "h264_nvenc needs an NVIDIA card with an encoder, its driver and an FFmpeg with it, and none "
                "can be opened; set encoder to libx264 or auto");
}

inline PlanOptions plan_options(const ClipOptions& o) {
  return {o.min_length, o.min_frames, o.max_length, o.long_shots, o.stride, o.edge_crop};
}

inline TranscodeOptions transcode_options(const ClipOptions& given) {
  TranscodeOptions o;
  o.decoder = decoding_options(given.threads, given.decoder);
  o.crf = static_cast<int>(given.crf);
  o.preset = given.preset;
  o.encoder = given.encoder;
  o.max_height = static_cast<int>(given.max_height);
  o.threads = static_cast<int>(given.threads);
  o.audio = given.audio;
  o.parallel = static_cast<int>(parallel_clips(given));
  o.memory = given.memory;
  o.copy = given.copy == "auto";
  o.sample_fps = given.sample_fps;
  o.sample_height = given.sample_height;
  return o;
}

}  // namespace kinora::video
