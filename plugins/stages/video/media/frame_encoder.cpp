#include "media/frame_encoder.hpp"

#include <algorithm>
#include <utility>

#include "media/byte_source.hpp"
#include "media/convert.hpp"
#include "media/h264_encoders.hpp"

namespace kinora::video {

FrameEncoder::FrameEncoder(EncoderOptions options, Sink sink)
    : options_(std::move(options)), sink_(std::move(sink)) {
  ff::silence_library_log();
  validate_h264(options_);
  width_ = std::max(2, options_.width & ~1);
  height_ = std::max(2, options_.height & ~1);
  time_base_ = options_.time_base.num > 0 ? AVRational{options_.time_base.num, options_.time_base.den}
                                          : AVRational{options_.fps.den, options_.fps.num};
  encoder_ = open_h264(options_, width_, height_, time_base_);
}

bool FrameEncoder::fits(const AVFrame& f) const {
  return options_.turn.is_upright() && f.format == AV_PIX_FMT_YUV420P && range_of(f) == AVCOL_RANGE_MPEG &&
         (f.width & ~1) == width_ && (f.height & ~1) == height_ && matrix_of(f) == options_.colour.matrix;
}

// Stores the frame in the file's form in held_.
void FrameEncoder::hold(const AVFrame& frame, int64_t pts) {
  held_ = ff::new_frame();
  if (fits(frame)) {
    if (av_frame_ref(held_.get(), &frame) < 0) throw std::bad_alloc();
    av_frame_remove_side_data(held_.get(), AV_FRAME_DATA_A53_CC);
    held_->width = width_;
    held_->height = height_;
  } else {
    hold_converted(frame);
  }
  held_->pts = pts;
  // The encoder chooses its own key frames besides the forced ones.
  held_->pict_type = std::exchange(forces_key_, false) ? AV_PICTURE_TYPE_I : AV_PICTURE_TYPE_NONE;
}

void FrameEncoder::hold_converted(const AVFrame& frame) {
  const bool turned = options_.turn.swaps_sides();
  const int w = turned ? height_ : width_, h = turned ? width_ : height_;
  auto scaled = allocate_picture(w, h, AV_PIX_FMT_YUV420P);
  scaled->colorspace = static_cast<AVColorSpace>(options_.colour.matrix);
  scaled->color_range = AVCOL_RANGE_MPEG;
  if (!view_) view_ = ff::new_frame();
  av_frame_unref(view_.get());
  if (av_frame_ref(view_.get(), &frame) < 0) throw std::bad_alloc();
  view_->colorspace = matrix_of(frame);
  if (frame.width == w + 1) view_->width = w;  // an odd column or row is cut off, not squeezed in
  if (frame.height == h + 1) view_->height = h;
  converter_.convert(*view_, *scaled, Filter::automatic);
  if (options_.turn.is_upright()) {
    held_ = std::move(scaled);
    return;
  }
  held_ = allocate_picture(width_, height_, AV_PIX_FMT_YUV420P);
  for (int plane = 0; plane < 3; ++plane) {
    const int shift = plane == 0 ? 0 : 1;
    rotate_plane({scaled->data[plane], scaled->linesize[plane]}, w >> shift, h >> shift, 1, options_.turn,
                 {held_->data[plane], held_->linesize[plane]});
  }
}

int64_t FrameEncoder::nominal_end() const {
  if (!held_) throw MediaError("encoding h264: there are no frames; write at least one");
  const AVRational frame{options_.fps.den, options_.fps.num};
  return held_->pts + std::max<int64_t>(1, av_rescale_q(1, frame, time_base_));
}

// A frame is sent once its end is known, because its packet carries its duration.
void FrameEncoder::send_held(int64_t end_pts) {
  if (end_pts <= held_->pts) {
    throw MediaError("encoding h264: frame " + std::to_string(frames_) + " ends at tick " +
                     std::to_string(end_pts) + ", not after its start; give increasing timestamps");
  }
  shown_.push_back({held_->pts, end_pts - held_->pts});
  check_h264(avcodec_send_frame(encoder_.get(), held_.get()), "frame " + std::to_string(frames_));
  ++frames_;
  held_.reset();
  drain();
}

void FrameEncoder::drain() {
  int code = 0;
  while ((code = avcodec_receive_packet(encoder_.get(), packet_.get())) >= 0) {
    const auto at =
        std::find_if(shown_.begin(), shown_.end(), [&](const Shown& s) { return s.pts == packet_->pts; });
    if (at != shown_.end()) {
      packet_->duration = at->duration;
      shown_.erase(at);
    }
    sink_(*packet_);
  }
  if (code != AVERROR(EAGAIN) && code != AVERROR_EOF) check_h264(code, "a frame");
}

void FrameEncoder::write_rgb(const uint8_t* rgb) {
  const auto frame = picture_of_rgb(rgb, options_.width, options_.height);
  const int64_t next = held_ ? frames_ + 1 : frames_;
  write(*frame, av_rescale_q(next, {options_.fps.den, options_.fps.num}, time_base_));
}

void FrameEncoder::write(const AVFrame& frame, int64_t pts) {
  if (held_) send_held(pts);
  hold(frame, pts);
}

void FrameEncoder::finish(int64_t end_pts) {
  if (held_ || frames_ == 0) send_held(end_pts >= 0 && held_ ? end_pts : nominal_end());
  check_h264(avcodec_send_frame(encoder_.get(), nullptr), "the last frame");
  drain();
}

}  // namespace kinora::video
