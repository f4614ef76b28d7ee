#include "media/joined_recordings.hpp"

#include <algorithm>
#include <utility>

namespace kinora::video {
namespace {

constexpr int64_t kFall = 1000, kFallAtKey = 100, kLeap = 3'600'000, kGap = 1000;  // milliseconds
constexpr int64_t kApart = 5000;  // between the ends of sound and video in the file, milliseconds
constexpr int64_t kMostBytesAhead = int64_t{32} << 20;
constexpr size_t kMostPacketsAhead = 4096;
constexpr int64_t kUsualRate = 25;  // pictures per second, if a packet has no duration

int64_t in_ticks(int64_t milliseconds, const AVStream& stream) {
  return std::max<int64_t>(1, av_rescale_q(milliseconds, {1, 1000}, stream.time_base));
}

}  // namespace

void JoinedRecordings::open(const AVStream* video, const AVStream* audio, bool is_mpegts, Demux demux) {
  video_.stream = video;
  audio_.stream = audio;
  is_mpegts_ = is_mpegts;
  demux_ = std::move(demux);
}

void JoinedRecordings::forget() {
  for (Track* track : {&video_, &audio_}) *track = Track{track->stream};
  ahead_.clear();
  bytes_ahead_ = ahead_code_ = 0;
  is_marked_ = false;
  offsets_ = {0};
}

int JoinedRecordings::next(AVPacket& packet) {
  if (ahead_.empty()) return ahead_code_ < 0 ? std::exchange(ahead_code_, 0) : demux_(packet);
  av_packet_move_ref(&packet, ahead_.front().get());
  ahead_.pop_front();
  bytes_ahead_ -= packet.size;
  return 0;
}

int JoinedRecordings::read(AVPacket& packet) {
  const int code = next(packet);
  if (code < 0) return code;
  const auto is_of = [&](const Track& track) {
    return track.stream != nullptr && track.stream->index == packet.stream_index;
  };
  if (is_of(video_)) {
    if (is_mpegts_) mark(packet);
    place(video_, packet);
  } else if (is_of(audio_)) {
    place(audio_, packet);
  }
  return code;
}

// Whether the packet is the first of another recording.
bool JoinedRecordings::begins(const Track& track, const AVPacket& packet) const {
  if (track.last_dts == AV_NOPTS_VALUE || packet.dts == AV_NOPTS_VALUE) return false;
  const int64_t fall = track.last_dts - packet.dts;
  const bool is_key = (packet.flags & AV_PKT_FLAG_KEY) != 0;  // as every packet of sound
  return fall >= in_ticks(is_key ? kFallAtKey : kFall, *track.stream) ||
         -fall > in_ticks(kLeap, *track.stream);
}

void JoinedRecordings::follow(Track& track, const AVPacket& packet) const {
  if (packet.dts != AV_NOPTS_VALUE) track.last_dts = packet.dts;
  track.lacks_pts = track.lacks_pts || packet.pts == AV_NOPTS_VALUE;
  if (track.latest == AV_NOPTS_VALUE || packet.pts > track.latest) track.latest = packet.pts;
  track.duration = packet.duration;
}

// Offset of the recording that begins with this packet of the video.
int64_t JoinedRecordings::offset_at(const Track& video, const AVPacket& packet) const {
  const AVRational frame{1, kUsualRate};
  const int64_t duration = video.duration > 0
                               ? video.duration
                               : std::max<int64_t>(1, av_rescale_q(1, frame, video.stream->time_base));
  const bool by_decoding = video.lacks_pts || packet.pts == AV_NOPTS_VALUE;
  return offsets_[video.recording] + duration +
         (by_decoding ? video.last_dts - packet.dts : video.latest - packet.pts);
}

void JoinedRecordings::place(Track& track, AVPacket& packet) {
  if (begins(track, packet)) {
    const bool is_known = track.recording + 1 < offsets_.size();
    if (&track == &video_ && !is_known) offsets_.push_back(offset_at(track, packet));
    if (&track == &video_ || is_known || look_for_next_recording()) {
      ++track.recording;
      track.latest = AV_NOPTS_VALUE;
      track.lacks_pts = false;
    }
  }
  follow(track, packet);
  const int64_t offset = av_rescale_q(offsets_[track.recording],
                                      video_.stream ? video_.stream->time_base : track.stream->time_base,
                                      track.stream->time_base);
  if (packet.pts != AV_NOPTS_VALUE) packet.pts += offset;
  if (packet.dts != AV_NOPTS_VALUE) packet.dts += offset;
}

// Finds the recording that the video has not reached yet although the sound has. False if the video has none nearby.
bool JoinedRecordings::look_for_next_recording() {
  if (video_.stream == nullptr || video_.stream->discard == AVDISCARD_ALL) return false;
  Track video = video_;
  for (size_t i = 0;; ++i) {
    if (i == ahead_.size() && !read_ahead()) return false;
    const AVPacket& packet = *ahead_[i];
    if (packet.stream_index != video.stream->index) continue;
    if (begins(video, packet)) {
      offsets_.push_back(offset_at(video, packet));
      return true;
    }
    follow(video, packet);
    if (video.last_dts - video_.last_dts > in_ticks(kApart, *video.stream)) return false;
  }
}

bool JoinedRecordings::read_ahead() {
  if (ahead_code_ < 0 || bytes_ahead_ > kMostBytesAhead || ahead_.size() > kMostPacketsAhead) return false;
  auto packet = ff::new_packet();
  ahead_code_ = demux_(*packet);
  if (ahead_code_ < 0) return false;
  bytes_ahead_ += packet->size;
  ahead_.push_back(std::move(packet));
  return true;
}

const AVPacket* JoinedRecordings::next_picture() {
  for (size_t i = 0; i < ahead_.size() || read_ahead(); ++i)
    if (ahead_[i]->stream_index == video_.stream->index) return ahead_[i].get();
  return nullptr;
}

// Moves the mark to the picture after, unless that one ends a recording.
void JoinedRecordings::mark(AVPacket& packet) {
  const bool is_damaged = std::exchange(is_marked_, (packet.flags & AV_PKT_FLAG_CORRUPT) != 0);
  packet.flags &= ~AV_PKT_FLAG_CORRUPT;
  if (!is_damaged) return;
  const AVPacket* after = next_picture();
  const bool may_begin = after != nullptr && (after->flags & AV_PKT_FLAG_KEY) != 0 &&
                         after->dts != AV_NOPTS_VALUE && packet.dts != AV_NOPTS_VALUE;
  const bool ends =
      may_begin && (after->dts < packet.dts || after->dts - packet.dts > in_ticks(kGap, *video_.stream));
  if (!ends) packet.flags |= AV_PKT_FLAG_CORRUPT;
}

}  // namespace kinora::video
