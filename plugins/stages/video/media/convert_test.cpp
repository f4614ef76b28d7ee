#include "media/convert.hpp"

#include "media/frame_encoder.hpp"
#include "media/media_testing.hpp"

namespace kinora::video {
namespace {

using testing::Bytes;

const AVPixelFormat kLayouts[] = {AV_PIX_FMT_YUV420P,   AV_PIX_FMT_YUVJ420P,  AV_PIX_FMT_YUV422P,
                                  AV_PIX_FMT_YUV444P,   AV_PIX_FMT_YUV440P,   AV_PIX_FMT_YUV411P,
                                  AV_PIX_FMT_NV12,      AV_PIX_FMT_YUVA420P,  AV_PIX_FMT_GRAY8,
                                  AV_PIX_FMT_YUV420P10, AV_PIX_FMT_YUV422P10, AV_PIX_FMT_YUV444P12,
                                  AV_PIX_FMT_YUV420P16, AV_PIX_FMT_GRAY10,    AV_PIX_FMT_P010};

constexpr int kSide = 32;

// A frame whose left half has luma `left` and whose right half has `right`, in 8ths of its largest value, without
// colour.
ff::Owned<AVFrame> halves_of(AVPixelFormat format, AVColorRange range, int left, int right) {
  auto frame = allocate_picture(kSide, kSide, format);
  frame->color_range = range;
  const AVPixFmtDescriptor& d = *av_pix_fmt_desc_get(format);
  const int bits = d.comp[0].depth, most = (1 << bits) - 1;
  for (int plane = 0; plane < av_pix_fmt_count_planes(format); ++plane) {
    const int rows = plane == 1 || plane == 2 ? AV_CEIL_RSHIFT(kSide, d.log2_chroma_h) : kSide;
    const int pixels = frame->linesize[plane] / (bits > 8 ? 2 : 1);
    for (int y = 0; y < rows; ++y)
      for (int x = 0; x < pixels; ++x) {
        const bool is_luma = plane == 0;
        const int value = is_luma      ? most * (x < kSide / 2 ? left : right) / 8
                          : plane == 3 ? most
                                       : 1 << (bits - 1);
        uint8_t* row = frame->data[plane] + ptrdiff_t{frame->linesize[plane]} * y;
        if (bits > 8)
          reinterpret_cast<uint16_t*>(row)[x] = static_cast<uint16_t>(value << d.comp[0].shift);
        else
          row[x] = static_cast<uint8_t>(value);
      }
  }
  return frame;
}

// Luma of the files, whose range is limited (ITU-R BT.601, 2.5.3; H.273, equation 20).
double expected_luma(AVPixelFormat format, AVColorRange range, int eighths) {
  const int bits = av_pix_fmt_desc_get(format)->comp[0].depth, most = (1 << bits) - 1;
  const double value = most * eighths / 8;
  const bool is_full = range == AVCOL_RANGE_JPEG || format == AV_PIX_FMT_YUVJ420P;
  return is_full ? 16 + 219 * value / most : value / (1 << (bits - 8));
}

TEST(FrameEncoder, GivesEveryLayoutDepthAndRangeItsLimitedRangeTurnedOrNotScaledOrNot) {
  for (const AVPixelFormat format : kLayouts)
    for (const AVColorRange range : {AVCOL_RANGE_MPEG, AVCOL_RANGE_JPEG})
      for (const int side : {kSide, kSide / 2})
        for (const Orientation turn :
             {Orientation(0), Orientation(90), Orientation(180, true), Orientation(270)}) {
          SCOPED_TRACE(std::string(av_get_pix_fmt_name(format)) + " " + av_color_range_name(range) + " " +
                       std::to_string(side) + " " + std::to_string(turn.degrees));
          EncoderOptions options = testing::small_video(side, side);
          options.preset = "ultrafast";
          options.crf = 0;
          options.turn = turn;
          Encoder encoder(options);
          encoder.write(*halves_of(format, range, 1, 7), 0);
          const testing::Decoded made = testing::decode(encoder.finish());
          const auto luma = [&](int x, int y) { return made.luma.at(0)[static_cast<size_t>(y * side + x)]; };
          // Where the middle of the stored left half comes to lie.
          const int near = side / 4, middle = side / 2, far = side - 1 - near;
          const bool is_turned = turn.swaps_sides(),
                     first = turn.degrees == 0 || turn.degrees == 90 || turn.mirrored;
          const int from = first ? near : far, to = first ? far : near;
          EXPECT_NEAR(is_turned ? luma(middle, from) : luma(from, middle), expected_luma(format, range, 1),
                      1.5);
          EXPECT_NEAR(is_turned ? luma(middle, to) : luma(to, middle), expected_luma(format, range, 7), 1.5);
        }
}

TEST(RangeOf, GreyIsFullUnlessATagSaysOtherwise) {
  auto grey = allocate_picture(8, 8, AV_PIX_FMT_GRAY8);
  EXPECT_EQ(range_of(*grey), AVCOL_RANGE_JPEG);
  grey->color_range = AVCOL_RANGE_MPEG;
  EXPECT_EQ(range_of(*grey), AVCOL_RANGE_MPEG);
}

const Orientation kOrientations[] = {{0, false}, {90, false}, {180, false}, {270, false},
                                     {0, true},  {90, true},  {180, true},  {270, true}};

// 1 2 3
// 4 5 6
TEST(Orientation, MirrorsBeforeItTurns) {
  const Bytes plane{1, 2, 3, 4, 5, 6};
  const Bytes expected[] = {{1, 2, 3, 4, 5, 6}, {4, 1, 5, 2, 6, 3}, {6, 5, 4, 3, 2, 1}, {3, 6, 2, 5, 1, 4},
                            {3, 2, 1, 6, 5, 4}, {6, 3, 5, 2, 4, 1}, {4, 5, 6, 1, 2, 3}, {1, 4, 2, 5, 3, 6}};
  for (size_t i = 0; i < std::size(kOrientations); ++i) {
    Bytes to(plane.size());
    const int width = kOrientations[i].swaps_sides() ? 2 : 3;
    Bytes from = plane;
    rotate_plane({from.data(), 3}, 3, 2, 1, kOrientations[i], {to.data(), width});
    EXPECT_EQ(to, expected[i]) << i;
  }
}

// The crop of the upright picture is the upright crop of the stored one.
TEST(Orientation, CropsWhatIsSeen) {
  constexpr int kWidth = 12, kHeight = 10;
  Bytes stored(kWidth * kHeight);
  for (size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<uint8_t>(i);
  const Crop seen{2, 4, 6, 4};
  for (const Orientation& o : kOrientations) {
    const int width = o.swaps_sides() ? kHeight : kWidth;
    Bytes upright(stored.size()), cut(static_cast<size_t>(seen.width * seen.height));
    rotate_plane({stored.data(), kWidth}, kWidth, kHeight, 1, o, {upright.data(), width});
    const Crop part = stored_crop(seen, kWidth, kHeight, o);
    rotate_plane({stored.data() + part.y * kWidth + part.x, kWidth}, part.width, part.height, 1, o,
                 {cut.data(), seen.width});
    for (int y = 0; y < seen.height; ++y)
      for (int x = 0; x < seen.width; ++x)
        EXPECT_EQ(cut[static_cast<size_t>(y * seen.width + x)],
                  upright[static_cast<size_t>((y + seen.y) * width + x + seen.x)])
            << o.degrees << o.mirrored;
  }
}

}  // namespace
}  // namespace kinora::video
