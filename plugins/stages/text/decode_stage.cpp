#include "decode_stage.hpp"

#include "ids.hpp"
#include "json_text.hpp"
#include "kinora/plugin.hpp"
#include "open_tokenizer.hpp"

namespace kinora::text {
namespace {

constexpr const char* kRest = "rest";

// Whether the text ends with this sample: unless the fact `last` is false.
bool ends_text(const Sample& sample) {
  const Json facts = parse_json(sample.text("json").value_or("{}"));
  return !facts.is_object() || !facts.contains("last") || facts["last"] != false;
}

}  // namespace

void DecodeStage::describe(Describe<Options>& d) {
  d.name("text.decode")
      .help(
          "Turns token ids back into text; if fact last is false, field rest gets the bytes of an unfinished "
          "character, for the next piece");
  d.option("file", &Options::file)
      .path()
      .required()
      .help(
          "the tokenizer that made the ids: tokenizer.json, a sentencepiece model, or a folder saved by "
          "transformers");
  d.option("from", &Options::from).help("tensor of token ids, int64 [L]");
  d.option("to", &Options::to).help("field that gets the text");
  d.option("skip_special", &Options::skip_special).help("leave out special tokens, such as </s>");
  d.input("input_ids", "[L]", "int64", "token ids, if from is unchanged", {.when = "from == input_ids"});
}

DecodeStage::DecodeStage(const Options& options)
    : options_(options), decoder_(open_tokenizer(options.file, {.unused = true})->decoder()) {}

void DecodeStage::process(Sample in, const Emit& emit, const Run&) {
  const auto ids = need_ids(in, options_.from);
  const bool last = ends_text(in);
  Unfinished kept;
  if (const auto rest = in.text(kRest)) kept = {true, std::string(*rest)};
  const std::string text = decoder_->decode(ids, options_.skip_special, last, kept);
  in.set(options_.to.c_str(), text);
  if (last) in.remove(kRest);
  if (!last && kept.begun) in.set(kRest, kept.bytes);
  emit(std::move(in));
}

}  // namespace kinora::text

using kinora::text::DecodeStage;
KINORA_COMPONENT(DecodeStage)
