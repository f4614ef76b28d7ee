#include "shots/shot_finder.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "media/byte_source.hpp"
#include "media/convert.hpp"

extern "C" {
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
}

namespace kinora::video {
bool is_full_range(const AVFrame& f) {
  return f.format == AV_PIX_FMT_YUVJ420P || f.color_range == AVCOL_RANGE_JPEG;
}

namespace {

YuvMatrix matrix(const AVFrame& f) {
  const int* k = sws_getCoefficients(f.colorspace);
  return {k[0], k[1], k[2], k[3], is_full_range(f)};
}

// Opens libswscale's converter to BGR with the settings of OpenCV's reader: bicubic chroma; the frame's own
// chroma position, matrix and range; full-range output.
SwsContext* open_converter(const AVFrame& f, FrameSize to) {
  SwsContext* sws = sws_alloc_context();
  const auto set = [&](const char* name, int64_t value) { av_opt_set_int(sws, name, value, 0); };
  const AVPixFmtDescriptor* format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(f.format));
  int x = 128, y = 128;
  if (f.chroma_location) avcodec_enum_to_chroma_pos(&x, &y, f.chroma_location);
  set("srcw", f.width);
  set("srch", f.height);
  set("src_format", f.format);
  set("dstw", to.width);
  set("dsth", to.height);
  set("dst_format", AV_PIX_FMT_BGR24);
  set("sws_flags", SWS_BICUBIC);
  set("src_h_chr_pos", format && format->log2_chroma_w ? x * ((1 << format->log2_chroma_w) - 1) : -513);
  set("src_v_chr_pos", format && format->log2_chroma_h ? y * ((1 << format->log2_chroma_h) - 1) : -513);
  if (is_full_range(f)) set("src_range", 1);
  if (sws_init_context(sws, nullptr, nullptr) < 0) {
    sws_freeContext(sws);
    throw MediaError(std::string("pixel format ") + (format ? format->name : "?") +
                     " cannot be converted to BGR; transcode the video first");
  }
  if (f.colorspace != AVCOL_SPC_RGB)
    sws_setColorspaceDetails(sws, sws_getCoefficients(f.colorspace), is_full_range(f),
                             sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
  return sws;
}

FrameSize upright(FrameSize size, Orientation rotation) {
  return rotation.swaps_sides() ? FrameSize{size.height, size.width} : size;
}

bool same_colours(const AVFrame& a, const AVFrame& b) {
  return a.format == b.format && a.colorspace == b.colorspace && a.color_range == b.color_range;
}

Yuv420View view_of(const AVFrame& f) {
  return {f.data[0], f.data[1], f.data[2], f.linesize[0], f.linesize[1], f.linesize[2]};
}

std::vector<std::string> names_of(const ShotsPlan& plan) {
  std::vector<std::string> names;
  for (const auto& options : plan.detectors) names.push_back(options.name);
  return names;
}

// Whether the rule looks at this detector's cuts.
bool decides(const ShotsPlan& plan, const ShotDetector& detector) {
  return plan.decide == "any" || plan.decide == "all" || plan.decide == detector.name();
}

bool measures_anything(const MeterOptions& needs) {
  return needs.hsv || needs.bins > 0 || needs.hash_size > 0 || needs.mean;
}

}  // namespace

FrameSize measured_size(FrameSize upright, int64_t downscale) {
  if (downscale == 0) return content_score_size(upright);
  return downscaled_size(upright, static_cast<double>(downscale));
}

MeasureSource::MeasureSource(FrameSize size, Orientation rotation, int64_t downscale,
                             const MeterOptions& needs)
    : size_(size),
      rotation_(rotation),
      meter_(upright(size, rotation), measured_size(upright(size, rotation), downscale), needs) {}

MeasureSource::~MeasureSource() { sws_freeContext(convert_); }

FrameMeasures MeasureSource::push(const AVFrame& frame) {
  const bool planar = frame.format == AV_PIX_FMT_YUV420P || frame.format == AV_PIX_FMT_YUVJ420P;
  // Turned planes stay 4:2:0 only if both sides are even.
  const bool even = frame.height % 2 == 0 && (rotation_.is_upright() || frame.width % 2 == 0);
  if (planar && even && FrameSize{frame.width, frame.height} == size_) return push_planes(turned(frame));
  last_.reset();
  return meter_.push(whole(frame));
}

FrameMeasures MeasureSource::push_planes(const AVFrame& frame) {
  const bool comparable = last_ && same_colours(frame, *last_);
  const Yuv420View before = comparable ? view_of(*last_) : Yuv420View{};
  const FrameMeasures out = meter_.push(view_of(frame), matrix(frame), comparable ? &before : nullptr);
  if (meter_.plan().source == meter_.plan().scaled) {
    last_ = ff::new_frame();
    if (av_frame_ref(last_.get(), &frame) < 0) throw std::bad_alloc();
  }
  return out;
}

// OpenCV turns the frame in BGR. The conversion uses a pixel and its block's chroma, so turning the planes
// first gives the same result.
const AVFrame& MeasureSource::turned(const AVFrame& frame) {
  if (rotation_.is_upright()) return frame;
  auto& to = turned_[turn_ ^= 1];
  const FrameSize size = upright({frame.width, frame.height}, rotation_);
  if (!to || to->format != frame.format || to->width != size.width)
    to = allocate_picture(size.width, size.height, static_cast<AVPixelFormat>(frame.format));
  if (av_frame_copy_props(to.get(), &frame) < 0) throw std::bad_alloc();
  for (size_t plane = 0; plane < 3; ++plane) {
    const int shift = plane == 0 ? 0 : 1;
    rotate_plane({frame.data[plane], frame.linesize[plane]}, frame.width >> shift, frame.height >> shift, 1,
                 rotation_, {to->data[plane], to->linesize[plane]});
  }
  return *to;
}

// Returns the whole frame in BGR, in the container's size, upright.
BgrView MeasureSource::whole(const AVFrame& frame) {
  const int stride = (size_.width * 3 + 63) / 64 * 64 + 64;
  const FrameSize from{frame.width, frame.height};
  if (convert_format_ != frame.format || convert_from_ != from) {
    sws_freeContext(convert_);
    convert_ = open_converter(frame, size_);
    convert_format_ = frame.format;
    convert_from_ = from;
    bgr_.resize(static_cast<size_t>(stride) * static_cast<size_t>(size_.height));
  }
  uint8_t* const to[4] = {bgr_.data(), nullptr, nullptr, nullptr};
  const int strides[4] = {stride, 0, 0, 0};
  sws_scale(convert_, frame.data, frame.linesize, 0, frame.height, to, strides);
  if (rotation_.is_upright()) return {bgr_.data(), stride};
  const ptrdiff_t upright_stride = ptrdiff_t{3} * upright(size_, rotation_).width;
  upright_bgr_.resize(static_cast<size_t>(upright_stride) *
                      static_cast<size_t>(upright(size_, rotation_).height));
  rotate_plane({bgr_.data(), stride}, size_.width, size_.height, 3, rotation_,
               {upright_bgr_.data(), upright_stride});
  return {upright_bgr_.data(), upright_stride};
}

ShotFinder::ShotFinder(const VideoInfo& video, const ShotsPlan& plan)
    : plan_(plan),
      rate_(nominal_frame_rate(video.average_fps.value())),
      length_rate_(nominal_frame_rate(video.length_fps.value())),
      decision_(names_of(plan), plan.decide, plan.tolerance,
                [this](int64_t from, int64_t to) { return frames_between(from, to); }) {
  MeterOptions needs;
  needs.hsv = false;
  needs.edge_kernel = static_cast<int>(plan.edge_kernel);
  for (const auto& options : plan.detectors) {
    detectors_.push_back(make_detector(options, length_rate_));
    settled_.emplace_back(options, length_rate_);
    found_.push_back(&detectors_.back()->cuts());
    detectors_.back()->require(needs);
    if (detectors_.back()->wants_thumbnails()) thumbnailer_.emplace(video.rotation);
  }
  static const std::vector<Range> none;
  transitions_ = &none;
  for (const auto& detector : detectors_)
    if (detector->wants_thumbnails() && decides(plan, *detector)) transitions_ = &detector->transitions();
  if (measures_anything(needs))
    source_.emplace(FrameSize{video.width, video.height}, video.rotation, plan.downscale, needs);
}

// By index or by time, whichever is more: two frames of a variable rate may be minutes apart.
int64_t ShotFinder::frames_between(int64_t from, int64_t to) const {
  const auto at = [&](int64_t frame) { return Moment{frame, times_us_[static_cast<size_t>(frame)]}; };
  return std::max(to - from, nominal_frames_between(at(from), at(to), length_rate_));
}

void ShotFinder::push(const AVFrame& picture, const Moment& now) {
  times_us_.push_back(now.microseconds);
  changes_.push(picture, now.frame);
  const FrameMeasures measures = source_ ? source_->push(picture) : FrameMeasures{};
  if (thumbnailer_) {
    std::array<uint8_t, Thumbnailer::kBytes> rgb;
    thumbnailer_->scale(picture, rgb.data());
    for (const auto& detector : detectors_) detector->see(rgb.data());
  }
  for (const auto& detector : detectors_) detector->push(measures, now);
}

const CutDecision& ShotFinder::settle(const Moment& now) {
  std::vector<int64_t> settled;
  for (size_t i = 0; i < detectors_.size(); ++i) settled.push_back(settled_[i].after(*detectors_[i], now));
  decision_.advance(found_, settled, changes_.frames());
  return decision_;
}

void ShotFinder::finish(const Moment& last) {
  for (const auto& detector : detectors_) detector->finish(last);
}

nlohmann::json ShotFinder::shots(const VideoClock& clock) const {
  const auto& times = clock.times();
  CutDecision decision(names_of(plan_), plan_.decide, plan_.tolerance,
                       [this](int64_t from, int64_t to) { return frames_between(from, to); });
  decision.advance(found_, std::vector<int64_t>(found_.size(), std::numeric_limits<int64_t>::max()),
                   changes_.frames());
  const auto& cuts = decision.cuts();
  const auto chosen = std::find_if(detectors_.begin(), detectors_.end(),
                                   [&](const auto& d) { return d->name() == plan_.decide; });
  nlohmann::json out{{"fps", rate_},
                     {"frames", times.size()},
                     {"cuts", cuts},
                     {"scores", (chosen == detectors_.end() ? detectors_.front() : *chosen)->scores()}};
  auto& cut_times = out["times_us"] = nlohmann::json::array();
  for (const int64_t cut : cuts) cut_times.push_back(times[static_cast<size_t>(cut)]);
  write_frame_times(out, clock, rate_);
  for (const auto& detector : detectors_) {
    auto& one =
        out["detectors"][detector->name()] = {{"cuts", detector->cuts()}, {"scores", detector->scores()}};
    if (detector->parts()) one["part"] = *detector->parts();
  }
  write_transitions(out, transitions());
  write_changes(out, changes_.frames());
  return out;
}

void write_changes(nlohmann::json& shots, const std::vector<int64_t>& changes) {
  if (!changes.empty()) shots["changes"] = changes;
}

void write_transitions(nlohmann::json& shots, const std::vector<Range>& transitions) {
  shots.erase("transitions");
  for (const Range& t : transitions) shots["transitions"].push_back({t.first, t.end});
}

std::string no_frame(const std::string& name, const std::string& damaged) {
  const std::string prefix = name + ": ";
  const std::string why = damaged.starts_with(prefix) ? damaged.substr(prefix.size()) : damaged;
  return prefix + "no frame could be decoded; " +
         (why.empty() ? "its video stream has no visible frame; fetch or re-encode the file" : why);
}

}  // namespace kinora::video
