"""SentEval (Conneau & Kiela 2018): its 28 tasks, to the protocol of the published toolkit."""
