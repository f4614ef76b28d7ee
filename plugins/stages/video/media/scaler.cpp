#include "media/scaler.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "media/byte_source.hpp"
#include "media/convert.hpp"
#include "media/probe.hpp"

namespace kinora::video {
namespace {

constexpr int kMaxSide = Limits{}.max_side;
constexpr int kChannels = 3;

// Crops the frame to its largest centred part with the displayed aspect width : height.
void crop_to_aspect(AVFrame& frame, int width, int height) {
  const AVRational sar = frame.sample_aspect_ratio;
  const double pixel_aspect = sar.num > 0 && sar.den > 0 ? av_q2d(sar) : 1.0;
  const double wanted = static_cast<double>(width) / height / pixel_aspect;  // in stored pixels
  const auto kept = [](double side, int whole) {
    return static_cast<int>(std::lround(std::clamp(side, 1.0, static_cast<double>(whole))));
  };
  const int keep_width = kept(frame.height * wanted, frame.width);
  const int keep_height = kept(frame.width / wanted, frame.height);
  const int extra_x = frame.width - keep_width, extra_y = frame.height - keep_height;
  // Even offsets, so that subsampled chroma is cropped where luma is.
  frame.crop_left = static_cast<size_t>(extra_x / 2 & ~1);
  frame.crop_top = static_cast<size_t>(extra_y / 2 & ~1);
  frame.crop_right = static_cast<size_t>(extra_x) - frame.crop_left;
  frame.crop_bottom = static_cast<size_t>(extra_y) - frame.crop_top;
  if (av_frame_apply_cropping(&frame, AV_FRAME_CROP_UNALIGNED) < 0) {
    throw MediaError("cannot crop a frame to the target's aspect; use fit = stretch");
  }
}

}  // namespace

struct Scaler::State {
  explicit State(const ScalerOptions& wanted) : options(wanted) {
    const bool turned = options.rotation.swaps_sides();
    result =
        allocate_picture(turned ? options.height : options.width, turned ? options.width : options.height,
                         options.order == ChannelOrder::rgb ? AV_PIX_FMT_RGB24 : AV_PIX_FMT_BGR24);
  }

  // Scales the frame to the target size, before rotation, into result.
  void scale(const AVFrame& frame) {
    view = ff::new_frame();
    if (av_frame_ref(view.get(), &frame) < 0) throw std::bad_alloc();
    if (options.matrix == Matrix::bt601) view->colorspace = AVCOL_SPC_SMPTE170M;
    if (options.matrix == Matrix::bt709) view->colorspace = AVCOL_SPC_BT709;
    view->colorspace = matrix_of(*view);  // chosen by the height of the whole picture, not of the crop
    if (options.fit == Fit::crop) crop_to_aspect(*view, result->width, result->height);
    converter.convert(*view, *result, options.filter);
    view.reset();
  }

  ScalerOptions options;
  PixelConverter converter;
  ff::Owned<AVFrame> result, view;
  std::vector<uint8_t> packed;
};

Scaler::Scaler(const ScalerOptions& options) {
  const auto sane = [](int side) { return side >= 1 && side <= kMaxSide; };
  if (!sane(options.width) || !sane(options.height)) {
    throw MediaError("scaler: " + std::to_string(options.width) + " x " + std::to_string(options.height) +
                     " pixels; give sides from 1 to " + std::to_string(kMaxSide));
  }
  if (const int degrees = options.rotation.degrees; degrees % 90 != 0 || degrees < 0 || degrees > 270) {
    throw MediaError("scaler: rotation " + std::to_string(degrees) + "; give 0, 90, 180 or 270 degrees");
  }
  state_ = std::make_unique<State>(options);
}

Scaler::~Scaler() = default;
Scaler::Scaler(Scaler&&) noexcept = default;
Scaler& Scaler::operator=(Scaler&&) noexcept = default;

void Scaler::bytes(const AVFrame& frame, uint8_t* out) {
  state_->scale(frame);
  // swscale writes whole vectors past the end of a row, so it must not write into the caller's packed rows.
  const AVFrame& result = *state_->result;
  rotate_plane({result.data[0], result.linesize[0]}, result.width, result.height, kChannels,
               state_->options.rotation, {out, ptrdiff_t{kChannels} * state_->options.width});
}

void Scaler::floats(const AVFrame& frame, float* out) {
  const size_t pixels =
      static_cast<size_t>(state_->options.width) * static_cast<size_t>(state_->options.height);
  state_->packed.resize(pixels * kChannels);
  bytes(frame, state_->packed.data());
  for (size_t channel = 0; channel < kChannels; ++channel) {
    for (size_t i = 0; i < pixels; ++i) {
      out[channel * pixels + i] = static_cast<float>(state_->packed[i * kChannels + channel]) / 127.5F - 1.0F;
    }
  }
}

}  // namespace kinora::video
