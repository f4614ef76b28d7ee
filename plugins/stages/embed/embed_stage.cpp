#include "embed_stage.hpp"

#include "kinora/curation.hpp"
#include "kinora/npy.hpp"
#include "kinora/plugin.hpp"

namespace kinora::embed {

void EmbedClassic::describe(Describe<Options>& d) {
  d.name("embed.classic")
      .help(
          "Embeds frames without weights: histograms of colour, gradients and motion, 488 numbers of norm 1");
  d.input("frames", "[T, H, W, 3]", "uint8",
          "sampled RGB frames, upright; for a video with shots.json, fact frames_at is required too");
  d.option("name", &Options::name)
      .help("output field NAME.npy; for a video with shots.json shots.NAME.npy, one row per shot");
  d.option("colour", &Options::colour).at_least(0).help("share of the cosine that colours decide");
  d.option("gradient", &Options::gradient)
      .at_least(0)
      .help("share of the cosine that edges and textures decide");
  d.option("motion", &Options::motion)
      .at_least(0)
      .help(
          "share of the cosine that changes between frames decide; 0 compares single frames only, as "
          "shots.merge requires");
}

EmbedClassic::EmbedClassic(const Options& o) : options_(o), shares_{o.colour, o.gradient, o.motion} {
  if (o.colour + o.gradient + o.motion <= 0)
    throw Error(KINORA_INVALID, "embed.classic: one of colour, gradient and motion must be above 0");
  if (o.name.empty() || o.name.find_first_of("/.") != std::string::npos)
    throw Error(KINORA_INVALID,
                "embed.classic: name must be a word without dots and slashes, such as \"classic\"");
}

void EmbedClassic::process(Sample in, const Emit& emit, const Run& run) {
  const Pictures pictures = pictures_of(in);
  const bool film = in.text("shots.json").has_value();
  std::vector<size_t> shot(static_cast<size_t>(pictures.count), 0);
  size_t shots = 1;
  if (film) {
    const auto starts = shot_starts(in, json_field(in, "shots.json"));
    shots = starts.size() + 1;
    shot = shots_of_frames(in, starts, pictures.count);
  }
  std::vector<Classic> each(shots, Classic(shares_));
  for (int64_t i = 0; i < pictures.count; ++i) {
    run.check_cancelled();
    each[shot[static_cast<size_t>(i)]].add(pictures.frame(i), pictures.height, pictures.width);
  }
  std::vector<float> all;
  for (const Classic& one : each) {
    const auto vector = one.vector();
    all.insert(all.end(), vector.begin(), vector.end());
  }
  if (film) {
    in.set(("shots." + options_.name + ".npy").c_str(),
           to_npy(all, {static_cast<int64_t>(shots), kClassicSize}));
  } else {
    in.set((options_.name + ".npy").c_str(), to_npy(all, {kClassicSize}));
    auto facts = json_field(in, "json");
    note_embedding(facts, options_.name, "embed.classic", kClassicSize);
    in.set("json", json_text(facts));
  }
  emit(std::move(in));
}

}  // namespace kinora::embed

using kinora::embed::EmbedClassic;
KINORA_COMPONENT(EmbedClassic)
