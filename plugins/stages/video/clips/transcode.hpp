#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "media/byte_source.hpp"
#include "clips/clip_plan.hpp"
#include "media/crop.hpp"
#include "media/decoder.hpp"
#include "clips/clip_sampler.hpp"
#include "media/packet_index.hpp"

namespace kinora::video {

struct TranscodeOptions {
  int crf = 18;
  std::string preset = "medium";
  std::string encoder = "libx264";  // or "h264_nvenc" or "auto": see EncoderOptions::codec
  int max_height = 0;  // lines of the upright picture; taller ones are scaled down, aspect kept. 0: as it is
  Crop crop;           // of the upright picture; empty: all of it
  int threads = 1;     // of one clip's encoder and of the decoder; the clips' bytes depend on the former
  bool audio = true;   // keep the film's sound, if it has any
  std::vector<std::pair<std::string, std::string>> metadata;  // written into every clip: see Mp4Writer
  DecoderOptions decoder;  // limits and the film's index; its threads are `threads`

  int parallel = 1;  // clips encoded at once; the bytes do not depend on it
  int64_t memory =
      int64_t{256} << 20;  // bytes of decoded frames and sound that may wait; and of sampled frames
  // Of the film, or null. Lets clips be copied, and decoded apart from the others where memory is short.
  std::shared_ptr<const PacketIndex> packets;
  bool copy = false;  // whole groups of pictures are copied where nothing about them is to change

  double sample_fps = 0;      // frames a second for Clip::samples; 0: none
  int64_t sample_height = 0;  // pixels; 0: as they are

  std::function<void()> check;  // called now and then by the caller's thread; what it throws ends everything
};

// The outcome for one range: bytes, or an error and no bytes.
struct Clip {
  std::vector<uint8_t> bytes;  // MP4, H.264 and AAC
  int64_t frames = 0;          // end - first
  int64_t copied = 0;          // of them, that are the film's own packets
  SampledFrames samples;
  std::optional<ClipSpan> span;  // where the film got as far as the clip's end
  std::string error;  // "film.mp4: clip [100, 180) ...": why there are no bytes
};

// Called once a range, in order, by the caller's thread. What it throws ends the transcoding and reaches the
// caller.
using ClipCallback = std::function<void(size_t clip_index, Clip clip)>;

// Cuts clips out of a film, frame-exact. The film is decoded once whatever the number of clips: frames wait,
// up to options.memory bytes of them, for the clip that is encoded next to the one before; where they are
// more, an encoder without work decodes its clip by itself, if there is an index of packets.
//
// Picture: exactly end - first frames, each with its own distance in time from the first, which shows at 0: a
// variable rate stays one. 8-bit 4:2:0 in limited range with the film's matrix, primaries and transfer in its
// tags. Rotation is baked in. Sound: the samples from the first frame's time to the end of the last one, to
// the sample, decoded and coded anew as AAC-LC with its priming declared. A range that reaches past the
// film's end, that holds a damaged frame, or whose frames span more than an hour, gives an error for that
// clip only. The same input and options give the same bytes.
//
// Copying: a clip of an H.264 film that stays as it is (8-bit 4:2:0 of limited range, progressive, upright,
// not cropped or scaled) takes over whole groups of pictures as they are; what lies before and behind them is
// encoded. Copied frames are not decoded, so damage in them is not seen here: look for it before.
//
// Ranges must be non-empty and ascending by their first frames and by their ends; they may overlap, and then
// nothing is copied. [owner-thread] The film is borrowed for the call. MediaError: bad ranges or options, or
// the film cannot be opened. Returns what was found damaged in the film, as Decoder::damaged(): clips that
// lie beside it are whole all the same.
std::string transcode_clips(ByteSource& film, const std::string& name, const std::vector<Range>& ranges,
                            const TranscodeOptions& options, const ClipCallback& callback);

}  // namespace kinora::video
