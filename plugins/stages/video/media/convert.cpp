#include "media/convert.hpp"

#include <algorithm>
#include <climits>
#include <cstring>

#include "media/byte_source.hpp"

namespace kinora::video {
namespace {

constexpr int kHighDefinitionLines = 720;

bool is_rgb(AVPixelFormat format) {
  const AVPixFmtDescriptor* description = av_pix_fmt_desc_get(format);
  return description != nullptr && (description->flags & AV_PIX_FMT_FLAG_RGB) != 0;
}

// The J formats are old names of the plain formats in full range.
AVPixelFormat plain(AVPixelFormat format) {
  switch (format) {
    case AV_PIX_FMT_YUVJ420P:
      return AV_PIX_FMT_YUV420P;
    case AV_PIX_FMT_YUVJ422P:
      return AV_PIX_FMT_YUV422P;
    case AV_PIX_FMT_YUVJ444P:
      return AV_PIX_FMT_YUV444P;
    case AV_PIX_FMT_YUVJ440P:
      return AV_PIX_FMT_YUV440P;
    case AV_PIX_FMT_YUVJ411P:
      return AV_PIX_FMT_YUV411P;
    default:
      return format;
  }
}

// Formats of one component and no colour; swscale and FFmpeg's tools take them as full range unless a tag says
// otherwise.
bool is_grey(AVPixelFormat format) {
  const AVPixFmtDescriptor* description = av_pix_fmt_desc_get(format);
  constexpr uint64_t kOther = AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM;
  return description != nullptr && description->nb_components <= 2 && (description->flags & kOther) == 0;
}

AVPixelFormat format_of(const AVFrame& frame) { return static_cast<AVPixelFormat>(frame.format); }

int flags_for(const AVFrame& from, const AVFrame& to, Filter filter) {
  const bool shrinks = to.width < from.width || to.height < from.height;
  if (filter == Filter::automatic) filter = shrinks ? Filter::area : Filter::bicubic;
  const int kernel = filter == Filter::area      ? SWS_AREA
                     : filter == Filter::bicubic ? SWS_BICUBIC
                                                 : SWS_BILINEAR;
  return kernel | SWS_ACCURATE_RND | SWS_BITEXACT | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP;
}

const int* coefficients(AVColorSpace matrix) {
  return sws_getCoefficients(matrix == AVCOL_SPC_BT2020_CL ? SWS_CS_BT2020 : static_cast<int>(matrix));
}

// Opens swscale for two kinds of frames. It decides at the opening whether it may copy planes of equal size and
// layout, so it must know the ranges then: set later, they change nothing, and for more than 8 bits neither where
// the size changes. RGB and palettes have no range.
SwsContext* open_swscale(const AVFrame& from, AVColorRange from_range, const AVFrame& to,
                         AVColorRange to_range, int flags) {
  SwsContext* sws = sws_alloc_context();
  if (sws == nullptr) throw std::bad_alloc();
  const auto set = [&](const char* name, int64_t value) { av_opt_set_int(sws, name, value, 0); };
  const auto is_full = [](const AVFrame& frame, AVColorRange range) {
    return !is_rgb(format_of(frame)) && range == AVCOL_RANGE_JPEG;
  };
  set("srcw", from.width);
  set("srch", from.height);
  set("src_format", plain(format_of(from)));
  set("src_range", is_full(from, from_range));
  set("dstw", to.width);
  set("dsth", to.height);
  set("dst_format", plain(format_of(to)));
  set("dst_range", is_full(to, to_range));
  set("sws_flags", flags);
  if (sws_init_context(sws, nullptr, nullptr) >= 0) return sws;
  sws_freeContext(sws);
  return nullptr;
}

}  // namespace

AVColorSpace matrix_of(const AVFrame& frame) {
  if (format_of(frame) == AV_PIX_FMT_PAL8) return AVCOL_SPC_SMPTE170M;  // in which swscale reads palettes
  const AVColorSpace matrix = ff::tag(frame.colorspace, AVCOL_SPC_NB, AVCOL_SPC_UNSPECIFIED);
  switch (matrix) {
    case AVCOL_SPC_BT709:
    case AVCOL_SPC_FCC:
    case AVCOL_SPC_BT470BG:
    case AVCOL_SPC_SMPTE170M:
    case AVCOL_SPC_SMPTE240M:
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL:
      return matrix;
    default:
      return frame.height >= kHighDefinitionLines ? AVCOL_SPC_BT709 : AVCOL_SPC_SMPTE170M;
  }
}

AVColorRange range_of(const AVFrame& frame) {
  if (plain(format_of(frame)) != format_of(frame) || is_rgb(format_of(frame))) return AVCOL_RANGE_JPEG;
  const AVColorRange range = ff::tag(frame.color_range, AVCOL_RANGE_NB, AVCOL_RANGE_UNSPECIFIED);
  if (range == AVCOL_RANGE_UNSPECIFIED && is_grey(format_of(frame))) return AVCOL_RANGE_JPEG;
  return range == AVCOL_RANGE_JPEG ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
}

PictureForm PictureForm::of(const AVFrame& frame) {
  PictureForm out{frame.width, frame.height, plain(format_of(frame)), {1, 1}, Colour::of(frame)};
  const AVRational aspect = frame.sample_aspect_ratio;
  if (aspect.num > 0 && aspect.den > 0) {
    av_reduce(&out.sample_aspect.num, &out.sample_aspect.den, aspect.num, aspect.den, INT_MAX);
  }
  out.colour.matrix = matrix_of(frame);
  out.colour.range = range_of(frame);
  return out;
}

bool operator==(const PictureForm& a, const PictureForm& b) {
  constexpr int kUnspecified = 2;
  const auto differ = [](int x, int y) { return x != y && x != kUnspecified && y != kUnspecified; };
  return a.width == b.width && a.height == b.height && a.format == b.format &&
         a.sample_aspect == b.sample_aspect && a.colour.matrix == b.colour.matrix &&
         a.colour.range == b.colour.range && !differ(a.colour.primaries, b.colour.primaries) &&
         !differ(a.colour.transfer, b.colour.transfer);
}

std::string PictureForm::text() const {
  const char* name = av_get_pix_fmt_name(format);
  return std::to_string(width) + " x " + std::to_string(height) + " " + (name != nullptr ? name : "?") +
         ", pixels " + std::to_string(sample_aspect.num) + ":" + std::to_string(sample_aspect.den) + ", " +
         colour.matrix_name() + ", " + colour.range_name();
}

void PixelConverter::prepare(const AVFrame& from, const AVFrame& to, Filter filter) {
  const AVColorSpace to_matrix = matrix_of(to);
  // swscale turns RGB into YUV by one of the two and back by the other.
  const AVColorSpace from_matrix =
      is_rgb(format_of(from)) && is_rgb(format_of(to)) ? to_matrix : matrix_of(from);
  AVColorRange from_range = range_of(from), to_range = range_of(to);
  // swscale takes every grey picture as full range; where nothing changes, both count as full.
  if (is_grey(format_of(from)) && !is_rgb(format_of(to)) && from_range == to_range)
    from_range = to_range = AVCOL_RANGE_JPEG;
  const Kind kind{from.width, from.height, from.format, from_matrix, from_range, to.width,
                  to.height,  to.format,   to_matrix,   to_range,    filter};
  if (tables_ && kind == kind_) return;
  tables_.reset(open_swscale(from, from_range, to, to_range, flags_for(from, to, filter)));
  if (!tables_) {
    const char* name = av_get_pix_fmt_name(format_of(from));
    throw MediaError("frames of format " + std::string(name != nullptr ? name : "unknown") + ", " +
                     std::to_string(from.width) + " x " + std::to_string(from.height) +
                     ", cannot be converted by this FFmpeg; convert the video to yuv420p");
  }
  kind_ = kind;
  constexpr int kOne = 1 << 16;  // contrast and saturation unchanged
  // Fails where there is nothing to set: for formats without a matrix (grey to RGB, palettes), and between two
  // YUV formats of one matrix, whose ranges are set already.
  sws_setColorspaceDetails(tables_.get(), coefficients(from_matrix), from_range == AVCOL_RANGE_JPEG,
                           coefficients(to_matrix), to_range == AVCOL_RANGE_JPEG, 0, kOne, kOne);
}

void PixelConverter::convert(const AVFrame& from, AVFrame& to, Filter filter) {
  prepare(from, to, filter);
  const int rows = sws_scale(tables_.get(), from.data, from.linesize, 0, from.height, to.data, to.linesize);
  if (rows < 0)
    throw MediaError("converting a frame failed (" + ff::error_text(rows) + "); the frame is damaged");
}

ff::Owned<AVFrame> allocate_picture(int width, int height, AVPixelFormat format) {
  auto picture = ff::new_frame();
  picture->width = width;
  picture->height = height;
  picture->format = format;
  if (av_frame_get_buffer(picture.get(), 0) < 0) throw std::bad_alloc();
  return picture;
}

ff::Owned<AVFrame> picture_of_rgb(const uint8_t* rgb, int width, int height) {
  auto picture = allocate_picture(width, height, AV_PIX_FMT_RGB24);
  const auto row = static_cast<size_t>(width) * 3;
  for (int y = 0; y < height; ++y) {
    std::copy_n(rgb + row * static_cast<size_t>(y), row,
                picture->data[0] + ptrdiff_t{picture->linesize[0]} * y);
  }
  return picture;
}

namespace {

template <int kBytes>
void rotate(Plane from, int width, int height, Orientation rotation, Plane to) {
  // Position of the source's top left pixel in `to`, and the steps in `to` for one pixel right and one down
  // in the source.
  ptrdiff_t origin = 0, right = kBytes, down = to.stride;
  const int degrees = rotation.degrees;
  if (degrees == 90) {
    origin = ptrdiff_t{kBytes} * (height - 1), right = to.stride, down = -kBytes;
  } else if (degrees == 180) {
    origin = to.stride * (height - 1) + ptrdiff_t{kBytes} * (width - 1), right = -kBytes, down = -to.stride;
  } else if (degrees == 270) {
    origin = to.stride * (width - 1), right = -to.stride, down = kBytes;
  }
  if (rotation.mirrored) origin += right * (width - 1), right = -right;
  for (int y = 0; y < height; ++y) {
    const uint8_t* source = from.bytes + from.stride * y;
    uint8_t* target = to.bytes + origin + down * y;
    if (rotation.is_upright()) {
      std::memcpy(target, source, static_cast<size_t>(kBytes) * static_cast<size_t>(width));
      continue;
    }
    for (int x = 0; x < width; ++x) std::memcpy(target + right * x, source + ptrdiff_t{kBytes} * x, kBytes);
  }
}

}  // namespace

void rotate_plane(Plane from, int width, int height, int pixel_bytes, Orientation rotation, Plane to) {
  if (pixel_bytes == 1) {
    rotate<1>(from, width, height, rotation, to);
  } else {
    rotate<3>(from, width, height, rotation, to);
  }
}

}  // namespace kinora::video
