#include "media/packet_index.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "media/byte_source.hpp"
#include "media/input.hpp"

namespace kinora::video {
namespace {

struct PictureGroup {
  int64_t pts = 0, dts = 0, earliest = 0, latest = 0, packets = 0;
  bool plain = true;
};

// Reads packet by packet and collects data in decoding order.
class Scan {
 public:
  Scan(ByteSource& video, const std::string& name) : input_(video, name, Limits{}) {
    if (input_.video() == nullptr) throw MediaError(name + ": no video stream; give a file with video");
    video_ = describe(input_, video, name).video;
    input_.select(input_.video());
    const AVCodecParameters& p = *input_.video()->codecpar;
    h264_ = p.codec_id == AV_CODEC_ID_H264 && p.extradata_size > 0 &&
            read_avcc({p.extradata, static_cast<size_t>(p.extradata_size)}, sets);
  }

  // False if a frame cannot be identified by its packet.
  bool run(size_t most, const std::function<void()>& each) {
    auto packet = ff::new_packet();
    int code = 0;
    while ((code = input_.read(*packet)) >= 0) {
      if (each) each();
      const bool ours = packet->stream_index == input_.video()->index;
      const bool sound = !ours || take(*packet);
      av_packet_unref(packet.get());
      if (!sound || pts.size() > most) return false;
    }
    return code == AVERROR_EOF && !input_.is_joined() && !input_.has_lost_end();
  }

  bool has_a_packet_a_frame() const {
    constexpr std::array kCodecs{AV_CODEC_ID_H264, AV_CODEC_ID_HEVC, AV_CODEC_ID_VP8,
                                 AV_CODEC_ID_VP9,  AV_CODEC_ID_AV1,  AV_CODEC_ID_FFV1};
    return std::string_view(input_.format()->iformat->name).starts_with("matroska") &&
           std::ranges::find(kCodecs, input_.video()->codecpar->codec_id) != kCodecs.end();
  }

  ParameterSets sets;
  std::vector<int64_t> pts, keys;  // of shown packets; of key packets
  std::vector<PictureGroup> groups;
  int64_t hidden = 0;         // of the shown packets: pictures of VP8 that only others refer to
  int64_t last_duration = 0;  // of the frame shown last, ticks; 0: unknown

  int64_t end_of_last(int64_t pts) const {
    return video_.end_of_last(pts, last_duration > 0 ? last_duration : video_.nominal_frame());
  }

 private:
  bool take(const AVPacket& packet) {
    if (packet.pts == AV_NOPTS_VALUE || (packet.flags & AV_PKT_FLAG_CORRUPT) != 0) return false;
    const bool shown = (packet.flags & AV_PKT_FLAG_DISCARD) == 0;
    if (shown) pts.push_back(packet.pts);
    if (shown && is_hidden(packet)) ++hidden;
    if (shown && packet.pts >= last_pts_) last_pts_ = packet.pts, last_duration = packet.duration;
    if (shown && (packet.flags & AV_PKT_FLAG_KEY) != 0) keys.push_back(packet.pts);
    if (av_packet_get_side_data(&packet, AV_PKT_DATA_NEW_EXTRADATA, nullptr) != nullptr) {
      h264_ = false;  // later groups need other parameter sets than those of the header
      groups.clear();
    }
    if (h264_) group(packet, shown);
    return true;
  }

  // The frame tag's show_frame, RFC 6386, 9.1.
  bool is_hidden(const AVPacket& packet) const {
    return input_.video()->codecpar->codec_id == AV_CODEC_ID_VP8 && packet.size > 0 &&
           (packet.data[0] & 0x10) == 0;
  }

  void group(const AVPacket& packet, bool shown) {
    const bool whole = split_units({packet.data, static_cast<size_t>(packet.size)}, units_);
    const auto has = [&](int type) {
      return std::any_of(units_.begin(), units_.end(), [&](auto unit) { return unit_type(unit) == type; });
    };
    if (has(5)) groups.push_back({packet.pts, packet.dts, packet.pts, packet.pts});
    if (groups.empty()) return;
    PictureGroup& last = groups.back();
    ++last.packets;
    last.earliest = std::min(last.earliest, packet.pts);
    last.latest = std::max(last.latest, packet.pts);
    last.plain = last.plain && shown && whole && !has(7) && !has(8) && packet.dts != AV_NOPTS_VALUE;
  }

  Input input_;
  VideoInfo video_;
  bool h264_ = false;
  int64_t last_pts_ = INT64_MIN;
  std::vector<std::span<const uint8_t>> units_;
};

int64_t index_of(const std::vector<int64_t>& sorted, int64_t pts) {
  return std::lower_bound(sorted.begin(), sorted.end(), pts) - sorted.begin();
}

}  // namespace

std::optional<int64_t> count_packets(ByteSource& video, const std::string& name) {
  Scan scan(video, name);
  if (!scan.has_a_packet_a_frame() || !scan.run(SIZE_MAX, {}) || scan.pts.empty() || scan.keys.empty() ||
      scan.keys[0] != *std::ranges::min_element(scan.pts))
    return std::nullopt;
  return static_cast<int64_t>(scan.pts.size()) - scan.hidden;
}

std::shared_ptr<const PacketIndex> index_packets(ByteSource& video, const std::string& name, int64_t frames,
                                                 const std::function<void()>& each) {
  Scan scan(video, name);
  if (!scan.run(static_cast<size_t>(frames), each) || frames == 0 ||
      static_cast<int64_t>(scan.pts.size()) != frames)
    return nullptr;
  std::sort(scan.pts.begin(), scan.pts.end());
  if (std::adjacent_find(scan.pts.begin(), scan.pts.end()) != scan.pts.end()) return nullptr;
  auto out = std::make_shared<PacketIndex>();
  auto map = std::make_shared<FrameIndex>();
  for (const int64_t key : scan.keys) map->keys.push_back(index_of(scan.pts, key));
  std::sort(map->keys.begin(), map->keys.end());
  for (const PictureGroup& g : scan.groups) {
    Gop gop{index_of(scan.pts, g.pts), index_of(scan.pts, g.latest) + 1, g.packets, g.dts};
    gop.copyable = g.plain && g.earliest == g.pts && gop.end - gop.first == g.packets;
    out->gops.push_back(gop);
  }
  out->video_end = scan.end_of_last(scan.pts.back());
  map->pts = std::move(scan.pts);
  out->frames = std::move(map);
  out->parameters = std::move(scan.sets);
  return out;
}

Range whole_gops(const PacketIndex& index, const Range& range) {
  Range best{range.first, range.first}, open = best;
  for (const Gop& gop : index.gops) {
    if (!gop.copyable || gop.first < range.first || gop.end > range.end) continue;
    const bool goes_on = gop.first == open.end && open.end > open.first;
    open = {goes_on ? open.first : gop.first, gop.end};
    if (open.end - open.first > best.end - best.first) best = open;
  }
  return best;
}

}  // namespace kinora::video
