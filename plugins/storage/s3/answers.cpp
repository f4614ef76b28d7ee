#include "plugins/storage/s3/answers.hpp"

#include <charconv>
#include <cstdlib>
#include <ctime>
#include <sstream>

#include <pugixml.hpp>

#include "kinora/error.hpp"
#include "plugins/storage/s3/object_path.hpp"

namespace kinora::s3 {
namespace {

Error no_answer(const std::string& why) {
  return {KINORA_ERROR_DATA, "the server's answer is not a valid S3 answer (" + why +
                                 "); is the endpoint an S3 server, and not a web page of one?"};
}

pugi::xml_document parsed(std::string_view xml) {
  pugi::xml_document out;
  const auto result = out.load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!result) throw no_answer(std::string("XML: ") + result.description());
  return out;
}

// The root element, which must have this name.
pugi::xml_node root(const pugi::xml_document& xml, const char* name) {
  const auto node = xml.document_element();
  if (std::string_view(node.name()) != name)
    throw no_answer(std::string("<") + name + "> expected, found <" + std::string(node.name()).substr(0, 64) +
                    ">");
  return node;
}

uint64_t number(const char* text) {
  uint64_t out = 0;
  const std::string_view all(text);
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), out);
  if (error != std::errc() || end != all.data() + all.size() || out > INT64_MAX)
    throw no_answer("'" + std::string(all.substr(0, 64)) + "' is not a size");
  return out;
}

std::string without_quotes(std::string text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  return text;
}

}  // namespace

ServerError read_error(std::string_view xml) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8)) return {};
  const auto node = document.document_element();
  if (std::string_view(node.name()) != "Error") return {};
  return {node.child_value("Code"), node.child_value("Message"), node.child_value("Region")};
}

Listing read_listing(std::string_view xml) {
  const auto document = parsed(xml);
  const auto list = root(document, "ListBucketResult");
  const bool coded = std::string_view(list.child_value("EncodingType")) == "url";
  const auto name = [&](const char* text) { return coded ? decoded_name(text) : std::string(text); };
  Listing out;
  for (const auto node : list.children("Contents"))
    out.objects.push_back({name(node.child_value("Key")), number(node.child_value("Size")),
                           nanoseconds_of(node.child_value("LastModified"))});
  for (const auto node : list.children("CommonPrefixes"))
    out.prefixes.push_back(name(node.child_value("Prefix")));
  if (std::string_view(list.child_value("IsTruncated")) != "true") return out;
  out.next = list.child_value("NextContinuationToken");
  if (out.next.empty()) throw no_answer("a truncated list without a NextContinuationToken");
  return out;
}

std::string read_upload_id(std::string_view xml) {
  // The name of the root depends on the server.
  const auto document = parsed(xml);
  std::string id = document.document_element().child_value("UploadId");
  if (id.empty()) throw no_answer("no UploadId");
  return id;
}

std::string read_completed(std::string_view xml) {
  const auto document = parsed(xml);
  return without_quotes(root(document, "CompleteMultipartUploadResult").child_value("ETag"));
}

std::string completion_body(const std::vector<std::string>& etags) {
  pugi::xml_document document;
  auto all = document.append_child("CompleteMultipartUpload");
  all.append_attribute("xmlns") = "http://s3.amazonaws.com/doc/2006-03-01/";
  for (size_t i = 0; i < etags.size(); ++i) {
    auto part = all.append_child("Part");
    part.append_child("PartNumber").text().set(static_cast<unsigned long long>(i + 1));
    part.append_child("ETag").text().set(etags[i].c_str());
  }
  std::ostringstream out;
  document.save(out, "", pugi::format_raw | pugi::format_no_declaration);
  return out.str();
}

int64_t nanoseconds_of(const std::string& iso_time) {
  std::tm time{};
  const char* rest = ::strptime(iso_time.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  if (!rest) return 0;
  int64_t fraction = 0, unit = 1'000'000'000;
  if (*rest == '.')
    for (++rest; *rest >= '0' && *rest <= '9' && unit > 1; ++rest)
      unit /= 10, fraction += (*rest - '0') * unit;
  const int64_t seconds = ::timegm(&time);
  if (std::abs(seconds) > INT64_MAX / 1'000'000'000 - 1) return 0;
  return seconds * 1'000'000'000 + fraction;
}

}  // namespace kinora::s3
