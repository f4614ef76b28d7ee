#include "kinora/plugin.hpp"

#include "plugins/models/clip/text.hpp"
#include "plugins/models/clip/vision.hpp"

using kinora::clip::Text;
using kinora::clip::Vision;
KINORA_COMPONENT(Text)
KINORA_COMPONENT(Vision)
KINORA_PLUGIN(Text, Vision)
