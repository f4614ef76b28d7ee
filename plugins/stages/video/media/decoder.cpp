#include "media/decoder.hpp"

#include <algorithm>
#include <utility>

#include "media/byte_source.hpp"
#include "media/frame_queue.hpp"
#include "media/jpeg.hpp"
#include "media/timestamps.hpp"

namespace kinora::video {
namespace {

constexpr int kSeekAttempts = 3;

}  // namespace

int64_t FrameIndex::find(int64_t timestamp) const {
  const auto at = std::lower_bound(pts.begin(), pts.end(), timestamp);
  return at != pts.end() && *at == timestamp ? at - pts.begin() : -1;
}

struct Decoder::State {
  State(ByteSource& source_, std::string name_, DecoderOptions options_)
      : source(source_), name(std::move(name_)), options(std::move(options_)) {
    reopen();
    probe = describe(queue->input(), source, name);
    if (queue->hardware() != nullptr && !probe.damage.empty()) {
      leave_hardware(probe.damage);
      reopen();
    }
    reset_clock();
  }

  void reopen() {
    queue = std::make_unique<FrameQueue>(source, name, options);
    position = 0;
    pending = finished = false;
    index = {};
    lost = false;
    problems_seen = 0;
    lost_at = AV_NOPTS_VALUE;
    linear = true;
    strayed = false;
    if (probe.video.width > 0) reset_clock();
  }

  void reset_clock() {
    const AVRational base{probe.video.time_base.num, probe.video.time_base.den};
    nominal = probe.video.nominal_frame();
    clock = TimestampRepair(nominal, std::clamp(av_rescale_q(1, {1, 1}, base), int64_t{1}, kLongestFrame));
  }

  // Fills `frame` with the queue's next picture; false at the end.
  bool advance() {
    if (finished) return false;
    if (position >= options.max_frames) {
      limit_reached = finished = true;
      return false;
    }
    const bool pulled = queue->pull();
    if (was_misled(pulled)) {
      trusts_keys = false;
      return go_on_from_the_start();
    }
    if (queue->hardware() != nullptr && (queue->problems() != problems_seen || queue->is_concealed())) {
      leave_hardware(queue->problem().empty() ? "an incomplete picture" : queue->problem());
      return go_on_from_the_start();
    }
    if (!pulled) {
      finish();
      return false;
    }
    take(queue->picture());
    return true;
  }

  // Whether a seek led to a key frame whose following pictures need data from before it. The index says that
  // the video is intact, so damage here comes from the seek.
  bool was_misled(bool pulled) const {
    if (linear) return false;
    if (!pulled) return position < static_cast<int64_t>(options.index->pts.size());
    return queue->is_concealed() || queue->problems() != problems_seen;
  }

  // Leaves what looks like damage to the CPU's decoder, which finds, counts and conceals it.
  void leave_hardware(const std::string& what) {
    const VideoInfo& video = probe.video;
    fall_back(options, name,
              queue->hardware()->name() + " fails at or before frame " + std::to_string(position) + " (" +
                  video.codec + ", " + video.pixel_format + ", " + std::to_string(video.width) + " x " +
                  std::to_string(video.height) + "): " + what);
    options.hardware = nullptr;
  }

  bool go_on_from_the_start() {
    const int64_t next = position;
    reopen();
    while (advance())
      if (frame.index == next) return true;
    return false;
  }

  // FFmpeg's program also turns pictures by what H.264 and HEVC state in themselves; here the container decides.
  void refuse_turned(const AVFrame& picture) const {
    const AVFrameSideData* side = av_frame_get_side_data(&picture, AV_FRAME_DATA_DISPLAYMATRIX);
    const std::string& codec = probe.video.codec;
    if (side == nullptr || (codec != "h264" && codec != "hevc") || !probe.video.rotation.is_upright()) return;
    if (by_display_matrix(side->data, side->size).is_upright()) return;
    throw MediaError(
        name +
        ": its pictures state that they are to be turned, its container does not; turn them with "
        "`ffmpeg -i IN -crf 16 OUT.mp4`");
  }

  void take(const AVFrame& picture) {
    if (position == 0) refuse_turned(picture);
    const int64_t raw = picture.best_effort_timestamp;
    const int64_t ticks = ff::duration_ticks(picture);
    frame.picture = &picture;
    frame.index = position++;
    frame.pts = clock.place(raw);
    frame.duration = ticks > 0 && ticks < kLongestFrame ? ticks : nominal;
    if (position == probe.video.frames && !probe.video.frames_estimated)
      frame.duration = probe.video.end_of_last(frame.pts, frame.duration) - frame.pts;
    frame.seconds = static_cast<double>(frame.pts) * probe.video.time_base.value();
    frame.key = ff::is_key(picture);
    frame.concealed = queue->is_concealed();
    // A key frame repairs a loss only if its packet came after the loss: with reordering, a key frame that
    // was sent earlier may come out later.
    const int64_t problems = queue->problems();
    if (frame.key && problems == problems_seen &&
        (lost_at == AV_NOPTS_VALUE || raw == AV_NOPTS_VALUE || raw > lost_at))
      lost = false;
    if (problems != problems_seen) lost_at = queue->problem_pts();
    lost = lost || frame.concealed || problems != problems_seen;
    problems_seen = problems;
    frame.damaged = lost;
    if (damage.empty() && frame.concealed)
      damage = "incomplete pictures from frame " + std::to_string(frame.index);
    if (damage.empty() && !queue->problem().empty()) {
      damage = "an error at or before frame " + std::to_string(frame.index) + ": " + queue->problem();
    }
    if (!linear) return;
    index.pts.push_back(raw);
    if (frame.key) index.keys.push_back(frame.index);
    index.exact = !clock.repaired() && !queue->input().is_joined() && damage.empty();
  }

  void finish() {
    finished = true;
    if (damage.empty() && !queue->problem().empty()) {
      damage = "an error after frame " + std::to_string(position - 1) + ": " + queue->problem();
    }
    if (damage.empty()) cut_off = !probe.damage.empty();
    index.exact = index.exact && damage.empty() && !cut_off;
  }

  // Returns the index to seek by if it covers `target`, which must be ahead.
  const FrameIndex* map_for(int64_t target) const {
    const auto covers = [target](const FrameIndex& map) {
      return map.exact && target < static_cast<int64_t>(map.pts.size());
    };
    return options.index && trusts_keys && covers(*options.index) ? options.index.get() : nullptr;
  }

  // Seeks to a key frame ahead of the position and decodes up to `target`, which becomes pending. False if
  // nothing was gained or the container's seek cannot be trusted; the position may then be lost.
  bool seek_towards(int64_t target, const FrameIndex& map) {
    auto key = std::upper_bound(map.keys.begin(), map.keys.end(), target);
    for (int attempt = 0; attempt < kSeekAttempts && trusts_keys && key != map.keys.begin(); ++attempt) {
      --key;
      if (*key <= position) return false;
      linear = false;
      strayed = true;
      if (!queue->seek(map.pts[static_cast<size_t>(*key)])) return false;
      if (arrive(*key, target, map)) return true;
    }
    return false;
  }

  // Decodes up to the picture of `target`. False if it does not come, as after a seek that landed past it, or
  // if a picture since the key frame is damaged by the seek.
  bool arrive(int64_t key, int64_t target, const FrameIndex& map) {
    while (queue->pull()) {
      const int64_t at = map.find(queue->picture().best_effort_timestamp);
      if (at < 0 || at > target) return false;
      if (at >= key && queue->is_concealed()) return trusts_keys = false;
      if (at < target) continue;
      position = target;
      reset_clock();
      problems_seen = queue->problems();
      lost = strayed = false;
      queue->forget_problem();  // concerns pictures before the target whose references the seek skipped
      take(queue->picture());
      return pending = true;
    }
    return false;
  }

  ByteSource& source;
  std::string name;
  DecoderOptions options;
  Probe probe;
  std::unique_ptr<FrameQueue> queue;
  TimestampRepair clock;
  FrameIndex index;
  Frame frame;
  int64_t nominal = 1;      // ticks
  int64_t position = 0;     // index of the next frame from the queue
  bool pending = false;     // `frame` is decoded but not yet delivered
  bool linear = true;       // every frame since the start has been decoded
  bool strayed = false;     // a seek has lost the position
  bool trusts_keys = true;  // no picture has shown that decoding cannot start at its key frame
  bool finished = false;
  bool lost = false;  // data was lost since the last key frame
  int64_t lost_at = AV_NOPTS_VALUE, problems_seen = 0;
  bool cut_off = false, limit_reached = false;
  std::string damage;
};

Decoder::Decoder(ByteSource& source, std::string name, DecoderOptions options)
    : state_(std::make_unique<State>(source, std::move(name), std::move(options))) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

int64_t Decoder::position() const { return state_->pending ? state_->frame.index : state_->position; }
const Probe& Decoder::probe() const { return state_->probe; }
Rational Decoder::time_base() const { return state_->probe.video.time_base; }
const FrameIndex& Decoder::index() const { return state_->index; }

const Frame* Decoder::next() {
  if (std::exchange(state_->pending, false)) return &state_->frame;
  return state_->advance() ? &state_->frame : nullptr;
}

void Decoder::skip_to(int64_t index) {
  State& s = *state_;
  if (s.pending && s.frame.index == index) return;
  if (index < s.position) s.reopen();
  s.pending = false;
  if (const FrameIndex* map = s.map_for(index)) {
    if (s.seek_towards(index, *map)) return;
    if (s.strayed) s.reopen();
  }
  while (s.position < index && s.advance()) {
  }
}

std::string Decoder::damaged() const {
  const State& s = *state_;
  const std::string delivered = std::to_string(s.position) + " frames were delivered; ";
  if (!s.damage.empty() || s.cut_off) {
    const std::string& cut = s.probe.damage;
    const std::string where = s.damage.empty() ? "" : s.damage + "; ";
    return s.name + ": " + where + delivered + (cut.empty() ? "fetch or re-encode the file" : cut);
  }
  if (s.limit_reached) {
    return s.name + ": longer than max_frames = " + std::to_string(s.options.max_frames) + "; " + delivered +
           "raise the limit or split the video";
  }
  return "";
}

Counted count_frames(ByteSource& source, const std::string& name, const DecoderOptions& options) {
  if (auto picture = JpegPicture::open(source, name, options.limits)) {
    const int row = 3 * picture->width();
    std::vector<uint8_t> rgb(static_cast<size_t>(row) * static_cast<size_t>(picture->height()));
    if (picture->decode(rgb.data(), row)) return {1, picture->damaged()};
  }
  Decoder decoder(source, name, options);
  Counted all;
  while (decoder.next() != nullptr) ++all.frames;
  all.damaged = decoder.damaged();
  return all;
}

}  // namespace kinora::video
