// stage/picture.read: makes a sample of a picture file, with the file's own bytes.
#include <algorithm>
#include <cctype>
#include <filesystem>

#include "kinora/bins.hpp"
#include "kinora/curation.hpp"
#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "media/decoder.hpp"
#include "media/jpeg.hpp"
#include "media/orientation.hpp"
#include "media/picture_header.hpp"
#include "media/sample_media.hpp"
#include "media/scaler.hpp"

namespace kinora::video {
namespace {

constexpr int64_t kLargestPictureFile = int64_t{1} << 27;

bool has_picture_ending(const std::string& name) {
  std::string ending = std::filesystem::path(name).extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::any_of(std::begin(kPictureFields), std::end(kPictureFields),
                     [&](const char* field) { return ending == std::string(".") + field; });
}

std::vector<uint8_t> first_bytes(ByteSource& source, int64_t most) {
  std::vector<uint8_t> out(static_cast<size_t>(std::min(source.size(), most)));
  out.resize(static_cast<size_t>(source.read_at(0, out.data(), static_cast<int64_t>(out.size()))));
  return out;
}

// Returns the file's bytes; empty if neither its name nor its content is a picture's.
std::vector<uint8_t> picture_file(const Media& media) {
  if (!begins_as_picture(first_bytes(*media.source, 12))) {
    if (!has_picture_ending(media.name)) return {};
    throw MediaError(media.name + ": not a JPEG, PNG or WebP picture; rename or remove the file");
  }
  if (media.source->size() > kLargestPictureFile)
    throw MediaError(media.name + ": a picture file of more than " +
                     std::to_string(kLargestPictureFile >> 20) + " MiB; encode it again");
  return first_bytes(*media.source, kLargestPictureFile);
}

// Decodes the whole picture, scaled to `size`; [size.height, size.width, 3].
std::vector<uint8_t> decoded_picture(ByteSource& file, const std::string& name, const ScalerOptions& size) {
  std::vector<uint8_t> rgb(static_cast<size_t>(size.height) * static_cast<size_t>(size.width) * 3);
  std::string damaged;
  auto jpeg = JpegPicture::open(file, name);
  if (jpeg && jpeg->decode(rgb.data(), size)) {
    damaged = jpeg->damaged();
  } else {
    Decoder decoder(file, name);
    const Frame* frame = decoder.next();
    if (frame) Scaler(size).bytes(*frame->picture, rgb.data());
    damaged = decoder.damaged();
    if (!frame && damaged.empty()) damaged = name + ": it has no picture; fetch it again";
  }
  if (!damaged.empty()) throw MediaError(damaged);
  return rgb;
}

}  // namespace

class PictureRead final : public Stage {
 public:
  struct Options {
    int64_t sample_height = 360;
  };
  static void describe(Describe<Options>& d) {
    d.name("picture.read")
        .help(
            "Makes a sample of a JPEG, PNG or WebP file: the file's bytes as field jpg, png or webp, its "
            "size, and "
            "its pixels for filters; emits videos unchanged");
    d.option("sample_height", &Options::sample_height)
        .range(0, 16384)
        .unit("pixels")
        .help("largest height of the tensor frames; higher pictures are scaled down for it. 0: unchanged");
    d.output("frames", "[1, H, W, 3]", "uint8", "the picture, RGB, upright as Exif says");
  }
  explicit PictureRead(const Options& o) : options_(o) {}
  kinora_resources resources() const override { return reads_media(); }

  void process(Sample in, const Emit& emit, const Run&) override {
    const Media media = open_media(in);
    media_call([&] {
      auto file = picture_file(media);
      if (!file.empty()) read(in, media.name, std::move(file));
    });
    emit(std::move(in));
  }

 private:
  void read(Sample& in, const std::string& name, std::vector<uint8_t> file) const {
    PictureHeader header = picture_header(file, name);
    const auto stored = Orientation::of(std::span(file));
    if (stored.swaps_sides()) std::swap(header.width, header.height);
    const int64_t height =
        options_.sample_height == 0 ? header.height : std::min(header.height, options_.sample_height);
    const int64_t width = std::max<int64_t>(1, header.width * height / header.height);
    ScalerOptions size;
    size.height = static_cast<int>(stored.swaps_sides() ? width : height);
    size.width = static_cast<int>(stored.swaps_sides() ? height : width);
    MemorySource source{std::span(file)};
    auto pixels = upright(decoded_picture(source, name, size), size.height, size.width, stored);
    for (const char* field : kPictureFields) in.remove(field);
    in.remove("url");
    in.set(header.field, std::move(file));
    in.set_tensor("frames", std::move(pixels), {1, height, width, 3}, KINORA_DL_UINT, 8);
    in.set("json", json_text(facts(in, header)));
  }

  static nlohmann::json facts(const Sample& in, const PictureHeader& header) {
    auto out = facts_of(in);
    for (const char* of_video : {"duration_s", "fps", "frames_estimated"}) out.erase(of_video);
    const Bin bin = bin_of(static_cast<double>(header.width), static_cast<double>(header.height), 0);
    out.update({{"picture", header.field},
                {"width", header.width},
                {"height", header.height},
                {"frames", 1},
                {"frames_at", nlohmann::json::array({0.0})},
                {"bin", {{"resolution", bin.resolution}}}});
    if (bin.aspect) out["bin"]["aspect"] = *bin.aspect;
    return out;
  }

  Options options_;
};

}  // namespace kinora::video

using kinora::video::PictureRead;
KINORA_COMPONENT(PictureRead)
