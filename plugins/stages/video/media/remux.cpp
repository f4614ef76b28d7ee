#include "media/remux.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

extern "C" {
#include <libavcodec/bsf.h>
}

#include "media/byte_source.hpp"
#include "media/ffmpeg.hpp"
#include "media/input.hpp"
#include "media/probe.hpp"

namespace kinora::video {
namespace {

constexpr std::array<std::string_view, 9> kWithoutIndex = {"mpegts", "mpeg", "avi", "flv", "live_flv",
                                                           "dv",     "rm",   "nsv", "wtv"};

struct Target {
  const char *container, *extension;
};
// The first that supports the codecs is written. Matroska supports all, but its clock ticks in milliseconds.
constexpr std::array<Target, 3> kTargets = {{{"mp4", ".mp4"}, {"mov", ".mov"}, {"matroska", ".mkv"}}};

std::string container_of(const Input& input) {
  const std::string_view names = input.format()->iformat->name;
  return std::string(names.substr(0, names.find(',')));
}

// Whether FFmpeg can tell when pictures are shown from when they are decoded, which is all that AVI says: a picture
// waits at most for the next one that no other waits for.
bool has_simple_order(AVCodecID codec) {
  return codec == AV_CODEC_ID_MPEG1VIDEO || codec == AV_CODEC_ID_MPEG2VIDEO || codec == AV_CODEC_ID_MPEG4;
}

void check(int code, const std::string& name, const char* what) {
  if (code < 0)
    throw MediaError(name + ": cannot rewrite it: " + what + " failed (" + ff::error_text(code) + ")");
}

struct FreeFilter {
  void operator()(AVBSFContext* filter) const { av_bsf_free(&filter); }
};

// MPEG-4 in AVI may have two pictures in a packet, which no other container supports.
std::unique_ptr<AVBSFContext, FreeFilter> filter_for(const AVStream& stream, const std::string& name) {
  const bool packed = stream.codecpar->codec_id == AV_CODEC_ID_MPEG4;
  AVBSFContext* filter = nullptr;
  check(av_bsf_alloc(av_bsf_get_by_name(packed ? "mpeg4_unpack_bframes" : "null"), &filter), name,
        "a filter");
  std::unique_ptr<AVBSFContext, FreeFilter> owned(filter);
  check(avcodec_parameters_copy(filter->par_in, stream.codecpar), name, "a filter");
  filter->time_base_in = stream.time_base;
  check(av_bsf_init(filter), name, "a filter");
  return owned;
}

// The new file; removed unless finish() is called.
class Copy {
 public:
  Copy(const Input& input, const std::string& name, const std::filesystem::path& stem)
      : input_(input), name_(name) {
    for (AVStream* stream : {input.video(), input.audio()})
      if (stream) tracks_.push_back({stream, filter_for(*stream, name), nullptr});
    const auto takes = [](const Target& to, const Track& t) {
      return avformat_query_codec(av_guess_format(to.container, nullptr, nullptr),
                                  t.filter->par_out->codec_id, FF_COMPLIANCE_NORMAL) == 1;
    };
    const Target& target = *std::find_if(kTargets.begin(), kTargets.end() - 1, [&](const Target& to) {
      return std::all_of(tracks_.begin(), tracks_.end(), [&](const Track& t) { return takes(to, t); });
    });
    to_ = target.container;
    file_ = stem;
    file_ += target.extension;
    check(avformat_alloc_output_context2(&format_, nullptr, to_.c_str(), file_.c_str()), name_,
          "the new container");
    try {
      begin();
    } catch (...) {
      discard();
      throw;
    }
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  ~Copy() { discard(); }

  void write(AVPacket* packet) {
    for (auto& track : tracks_)
      if (track.in->index == packet->stream_index) return pass(track, packet);
    av_packet_unref(packet);
  }

  Remuxed finish() {
    for (auto& track : tracks_) pass(track, nullptr);
    check(av_write_trailer(format_), name_, "the index");
    avio_flush(format_->pb);
    check(format_->pb->error, name_, "the last bytes");
    done_ = true;
    return {container_of(input_), to_, file_};
  }

 private:
  struct Track {
    AVStream* in;
    std::unique_ptr<AVBSFContext, FreeFilter> filter;
    AVStream* out;
  };

  void begin() {
    format_->flags |= AVFMT_FLAG_BITEXACT;
    av_dict_copy(&format_->metadata, input_.format()->metadata, 0);
    for (auto& track : tracks_) {
      track.out = avformat_new_stream(format_, nullptr);
      if (track.out == nullptr) throw std::bad_alloc();
      check(avcodec_parameters_copy(track.out->codecpar, track.filter->par_out), name_,
            "describing a stream");
      track.out->codecpar->codec_tag = 0;  // the old container's tag may have another meaning in the new one
      track.out->time_base = track.filter->time_base_out;
      track.out->avg_frame_rate = track.in->avg_frame_rate;
      track.out->sample_aspect_ratio = track.in->sample_aspect_ratio;
    }
    const std::string url = "file:" + file_.string();
    check(avio_open(&format_->pb, url.c_str(), AVIO_FLAG_WRITE), name_, "creating the new file");
    check(avformat_write_header(format_, nullptr), name_, "the header");
  }

  // Writes a packet and takes its content; null: no more packets follow.
  void pass(Track& track, AVPacket* packet) {
    check(av_bsf_send_packet(track.filter.get(), packet), name_, "a packet");
    const auto out = ff::new_packet();
    for (;;) {
      const int code = av_bsf_receive_packet(track.filter.get(), out.get());
      if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return;
      check(code, name_, "a packet");
      place(track, *out);
      check(av_interleaved_write_frame(format_, out.get()), name_, "writing a packet");
    }
  }

  // Moves the packet's times to a clock that begins with the video. Decoding times increase always; MediaError if a
  // picture would be shown at another time than by the old container.
  void place(Track& track, AVPacket& packet) {
    const AVRational base = track.filter->time_base_out;
    const int64_t start = input_.format()->start_time;
    const int64_t offset = start == AV_NOPTS_VALUE ? 0 : av_rescale_q(start, {1, AV_TIME_BASE}, base);
    if (packet.pts != AV_NOPTS_VALUE) packet.pts -= offset;
    if (packet.dts != AV_NOPTS_VALUE) packet.dts -= offset;
    packet.stream_index = track.out->index;
    packet.pos = -1;
    const int64_t shown = packet.pts;
    av_packet_rescale_ts(&packet, base, track.out->time_base);
    int64_t& last = last_[static_cast<size_t>(track.out->index)];
    if (packet.dts == AV_NOPTS_VALUE) packet.dts = packet.pts;
    if (packet.dts != AV_NOPTS_VALUE && last != AV_NOPTS_VALUE && packet.dts <= last) packet.dts = last + 1;
    last = packet.dts;
    const bool is_early = packet.pts != AV_NOPTS_VALUE && packet.pts < packet.dts;
    if (track.in != input_.video()) {
      if (is_early) packet.pts = packet.dts;
    } else if (is_early || shown == AV_NOPTS_VALUE ||
               av_compare_ts(shown, base, packet.pts, track.out->time_base) != 0) {
      throw MediaError(name_ + ": not rewritten, because " + to_ +
                       " cannot store when its pictures are shown");
    }
  }

  void discard() {
    if (format_ == nullptr) return;
    if (format_->pb != nullptr) avio_closep(&format_->pb);
    avformat_free_context(format_);
    format_ = nullptr;
    std::error_code ignored;
    if (!done_) std::filesystem::remove(file_, ignored);
  }

  const Input& input_;
  const std::string name_;
  std::vector<Track> tracks_;
  std::array<int64_t, 2> last_{AV_NOPTS_VALUE, AV_NOPTS_VALUE};  // decoding time of each track's last packet
  std::string to_;
  std::filesystem::path file_;
  AVFormatContext* format_ = nullptr;
  bool done_ = false;
};

}  // namespace

std::optional<Remuxed> remux(ByteSource& video, const std::string& name, const std::filesystem::path& stem,
                             const std::function<void()>& each) {
  Input input(video, name, Limits{});
  const std::string container = container_of(input);
  const bool wanted = std::find(kWithoutIndex.begin(), kWithoutIndex.end(), container) != kWithoutIndex.end();
  if (!wanted || input.video() == nullptr) return std::nullopt;
  if (has_simple_order(input.video()->codecpar->codec_id)) input.format()->flags |= AVFMT_FLAG_GENPTS;
  const auto give_up = [&](const std::string& why) {
    throw MediaError(name + ": not rewritten, because " + why);
  };
  if (const std::string cut = missing_bytes(video); !cut.empty()) give_up("it is " + cut);
  Copy copy(input, name, stem);
  const auto packet = ff::new_packet();
  int code = 0;
  while ((code = input.read(*packet)) >= 0) {
    each();
    const bool is_picture = packet->stream_index == input.video()->index;
    if (is_picture && (packet->flags & AV_PKT_FLAG_CORRUPT) != 0) give_up("a packet is incomplete");
    if (is_picture && av_packet_get_side_data(packet.get(), AV_PKT_DATA_NEW_EXTRADATA, nullptr) != nullptr)
      give_up("its pictures change their form");
    copy.write(packet.get());
  }
  if (code != AVERROR_EOF) give_up("reading stopped: " + ff::error_text(code));
  if (input.has_lost_end()) give_up("its last packets are lost");
  return copy.finish();
}

}  // namespace kinora::video
