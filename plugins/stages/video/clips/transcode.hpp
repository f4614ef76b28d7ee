#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "clips/clip_plan.hpp"
#include "clips/clip_sampler.hpp"
#include "media/byte_source.hpp"
#include "media/convert.hpp"
#include "media/decoder.hpp"
#include "media/packet_index.hpp"

namespace kinora::video {

struct TranscodeOptions {
  int crf = 18;
  std::string preset = "medium";
  std::string encoder = "libx264";  // see EncoderOptions::codec
  int max_height = 0;  // lines of the upright picture; taller ones are scaled down, aspect kept. 0: unchanged
  Crop crop;           // in the upright picture; empty: the whole picture
  int threads =
      1;  // threads of each clip's encoder and of the decoder; the clips' bytes depend on the former
  bool audio = true;                                          // keep the video's sound, if any
  std::vector<std::pair<std::string, std::string>> metadata;  // written into every clip: see Mp4Writer
  DecoderOptions decoder;  // limits and the video's index; its threads are `threads`

  int parallel = 1;  // clips encoded at once; does not change the bytes
  int64_t memory =
      int64_t{256} << 20;  // bytes of decoded frames and sound that may wait; also limits sampled frames
  // The video's packets, or null. Allows copying clips, and decoding clips separately if memory is short.
  std::shared_ptr<const PacketIndex> packets;
  bool copy = false;  // copy whole groups of pictures where nothing about them changes

  double sample_fps = 0;      // frames per second for Clip::samples; 0: none
  int64_t sample_height = 0;  // pixels; 0: unchanged

  std::function<void()> check;  // called regularly on the caller's thread; an exception from it ends the call
};

// The outcome for one range: bytes, or an error and no bytes.
struct Clip {
  std::vector<uint8_t> bytes;  // MP4, H.264 and AAC
  int64_t frames = 0;          // end - first
  int64_t copied = 0;          // number of these copied from the video's packets
  SampledFrames samples;
  std::optional<ClipSpan> span;  // set if the video reaches the clip's end
  std::string error;             // "a.mp4: clip [100, 180) ...": why there are no bytes
};

// Called once per range, in order, on the caller's thread. An exception from it ends the transcoding and
// reaches the caller.
using ClipCallback = std::function<void(size_t clip_index, Clip clip)>;

// Cuts clips out of a video, frame-exact. The video is decoded once for all clips: up to options.memory bytes
// of frames wait for clips that are encoded in parallel. If they need more, an idle encoder decodes its clip
// itself, provided there is a packet index.
//
// Picture: exactly end - first frames, each at its own time after the first, which is shown at 0, so a
// variable rate is kept. 8-bit 4:2:0 in limited range with the video's matrix, primaries and transfer in its
// tags. Rotation is applied. Sound: the samples from the first frame's time to the end of the last frame,
// sample-exact, decoded and encoded again as AAC-LC with its priming declared. A range that reaches past the
// video's end, contains a damaged frame, or spans more than an hour gives an error for that clip only. The
// same input and options give the same bytes.
//
// Copying: a clip of an H.264 video that needs no change (8-bit 4:2:0 of limited range, progressive, upright,
// not cropped or scaled) copies whole groups of pictures; the frames before and after them are encoded.
// Copied frames are not decoded, so their damage goes unnoticed here; check for it before.
//
// Ranges must be non-empty and ascending by their first frames and by their ends; they may overlap, and then
// nothing is copied. [owner-thread] The video is borrowed for the call. MediaError for bad ranges or options,
// or if the video cannot be opened. Returns the damage found in the video, as Decoder::damaged(); clips
// without damaged frames are intact.
std::string transcode_clips(ByteSource& video, const std::string& name, const std::vector<Range>& ranges,
                            const TranscodeOptions& options, const ClipCallback& callback);

}  // namespace kinora::video
