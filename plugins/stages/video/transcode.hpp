#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "byte_source.hpp"
#include "decoder.hpp"

namespace kinora::video {

// Frames [first, end) of a film, by Decoder's indices.
struct Range {
  int64_t first = 0;
  int64_t end = 0;
};

struct TranscodeOptions {
  int crf = 18;
  std::string preset = "medium";
  int max_height = 0;  // lines of the upright picture; taller ones are scaled down, aspect kept. 0: as it is
  int threads = 1;     // of the encoder and of the decoder; the clips' bytes depend on the former
  bool audio = true;   // keep the film's sound, if it has any
  std::vector<std::pair<std::string, std::string>> metadata;  // written into every clip: see Mp4Writer
  DecoderOptions decoder;  // limits and the film's index; its threads are `threads`
};

// The outcome for one range: bytes, or an error and no bytes.
struct Clip {
  std::vector<uint8_t> bytes;  // MP4, H.264 and AAC
  int64_t frames = 0;          // end - first
  std::string error;           // "film.mp4: clip [100, 180) ...": why there are no bytes
};

// Called once a range, in order. What it throws ends the transcoding and reaches the caller.
using ClipCallback = std::function<void(size_t clip_index, Clip clip)>;

// Cuts clips out of a film, frame-exact, decoding it once whatever the number of clips; memory is bounded by
// one clip.
//
// Picture: exactly end - first frames, each with its own distance in time from the first, which shows at 0: a
// variable rate stays one. 8-bit 4:2:0 in limited range with the film's matrix, primaries and transfer in its
// tags. Rotation is baked in. Sound: the samples from the first frame's time to the end of the last one, to
// the sample, decoded and coded anew as AAC-LC with its priming declared. A range that reaches past the
// film's end, that holds a damaged frame, or whose frames span more than an hour, gives an error for that
// clip only. The same input and options give the same bytes.
//
// Ranges must be non-empty, ascending and without overlap. [owner-thread] The film is borrowed for the call.
// MediaError: bad ranges or options, or the film cannot be opened. Returns what was found damaged in the
// film, as Decoder::damaged(): clips that lie beside it are whole all the same.
std::string transcode_clips(ByteSource& film, const std::string& name, const std::vector<Range>& ranges,
                            const TranscodeOptions& options, const ClipCallback& callback);

}  // namespace kinora::video
