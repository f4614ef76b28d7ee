// The growing videos of FragmentWriter as a service.
#include "plugins/jobs/fragments/video_fragments.hpp"

#include <cmath>
#include <utility>

#include "core/io/atomic_file.hpp"
#include "core/plugin/service.hpp"
#include "kinora/plugin.hpp"
#include "media/byte_source.hpp"
#include "media/fragment_writer.hpp"

namespace kinora::core {
namespace {

using video::FragmentWriter;

template <class F>
auto media_call(F&& f) {
  try {
    return f();
  } catch (const video::MediaError& e) {
    throw Error(KINORA_ERROR_FAILED, e.what());
  }
}

video::EncoderOptions encoder_options(const VideoFragments::Form& form) {
  video::EncoderOptions out;
  out.height = static_cast<int>(form.height);
  out.width = static_cast<int>(form.width);
  out.fps = {static_cast<int>(std::lround(form.fps * 1000)), 1000};
  out.crf = static_cast<int>(form.crf);
  out.preset = form.preset;
  out.threads = static_cast<int>(form.threads);
  if (!form.comment.empty()) out.metadata = {{"comment", form.comment}};
  return out;
}

class FragmentStream final : public VideoFragments::Stream {
 public:
  FragmentStream(const VideoFragments::Form& form, VideoFragments::Sink sink)
      : writer_(encoder_options(form),
                [sink = std::move(sink)](std::span<const uint8_t> bytes, FragmentWriter::Kind k) {
                  using Kind = VideoFragments::Kind;
                  sink(bytes, k == FragmentWriter::Kind::init ? Kind::init : Kind::fragment);
                }) {}
  void add(const uint8_t* frames, int64_t count) override {
    media_call([&] { writer_.add(frames, count); });
  }
  void finish() override {
    media_call([&] { writer_.finish(); });
  }
  const std::string& mime() const override { return writer_.mime(); }

 private:
  FragmentWriter writer_;
};

}  // namespace

class FragmentsByFFmpeg final : public VideoFragments {
 public:
  using Interface = VideoFragments;
  static constexpr const char* kHelp =
      "Encodes a video in fragments that play while it grows, and gives them one index in the end";

  std::unique_ptr<Stream> open(const Form& form, Sink sink) const override {
    return media_call([&] { return std::make_unique<FragmentStream>(form, std::move(sink)); });
  }

  void remux(const std::filesystem::path& fragmented, const std::filesystem::path& result,
             const std::string& comment) const override {
    AtomicFile file = or_throw(AtomicFile::create(result));
    media_call([&] {
      video::FileSource source(fragmented);
      video::remux_fragments(source, fragmented.string(), {{"comment", comment}}, file.temporary());
    });
    or_throw(file.commit());
  }
};

}  // namespace kinora::core

KINORA_SERVICE(FragmentsByFFmpeg)
KINORA_PLUGIN(FragmentsByFFmpeg)
