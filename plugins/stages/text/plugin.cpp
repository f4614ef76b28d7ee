#include "kinora/plugin.hpp"

#include "word_piece_stage.hpp"

using kinora::text::WordPieceStage;
KINORA_COMPONENT(WordPieceStage)
KINORA_PLUGIN(WordPieceStage)
