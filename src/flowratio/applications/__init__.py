"""From a ratio to an answer: divergences, information, tests, adaptation, generation, augmentation."""
